rule run_loader:
    """Measure one loader once, in a process of its own, with nothing beside it."""
    input:
        data=ancient(loader_data),
        format=loader_format,
        manifest=f"{CORPUS}/manifest.csv",
    output:
        record=f"{RUNS}/{{tier}}/{{loader}}/{{slug}}/{{repeat}}.json",
    log:
        f"{LOGS}/run_loader/{{tier}}/{{loader}}/{{slug}}/{{repeat}}.log",
    priority: run_priority
    conda:
        loader_env
    threads: workflow.cores
    params:
        protocol=PROTOCOL,
        code=run_code,
        own_file=own_file,
        corpus=subpath(input.manifest, parent=True),
        dataset=plan.dataset,
        tier_options=lambda wildcards: json.dumps(plan.tiers[wildcards.tier]),
        settings=lambda wildcards: settings(run_path(wildcards)),
        conditions=run_conditions,
        step_limit=run_step_limit,
        emulate=lambda wildcards: json.dumps(plan.tiers[wildcards.tier].get("emulate")),
        limited_share=plan.config["measure"]["limited_share"],
        logs=lambda wildcards: f"results/tensorboard/{run_path(wildcards).removeprefix('results/runs/')[:-5]}",
        epochs=plan.config["measure"]["epochs"],
        seconds=plan.config["measure"]["seconds"],
        limit_minutes=plan.config["measure"]["limit_minutes"],
        threads=plan.config["measure"]["threads"],
        seed=plan.config["measure"]["seed"],
    shell:
        "python -m scripts.measure.run_loader --loader {wildcards.loader} {params.own_file} --data {input.data:q} --corpus {params.corpus:q}"
        " --settings {params.settings:q} {params.conditions} --step-limit-ms {params.step_limit}"
        " --emulate {params.emulate:q} --limited-share {params.limited_share} --logs {params.logs:q}"
        " --epochs {params.epochs} --seconds {params.seconds}"
        " --limit-minutes {params.limit_minutes} --threads {params.threads} --seed {params.seed}"
        " --repeat {wildcards.repeat} --dataset {params.dataset} --tier {wildcards.tier}"
        " --out {output.record:q} > {log:q} 2>&1"


rule measure_bound:
    """Measure once what this machine gives when the data is in RAM and nothing has to be loaded."""
    input:
        info=f"{CORPUS}/corpus.json",
    output:
        record=f"{RUNS}/bounds/warm/{{slug}}/{{repeat}}.json",
    log:
        f"{LOGS}/measure_bound/{{slug}}/{{repeat}}.log",
    priority: bound_priority
    conda:
        env("loaders")
    threads: workflow.cores
    params:
        code=code_hash("scripts.measure.measure_bound"),
        corpus=subpath(input.info, parent=True),
        dataset=plan.dataset,
        settings=lambda wildcards: settings(bound_path(wildcards)),
        seconds=plan.config["measure"]["seconds"],
        limit_minutes=plan.config["measure"]["limit_minutes"],
        threads=plan.config["measure"]["threads"],
        seed=plan.config["measure"]["seed"],
    shell:
        "python -m scripts.measure.measure_bound --corpus {params.corpus:q} --settings {params.settings:q}"
        " --seconds {params.seconds} --limit-minutes {params.limit_minutes} --threads {params.threads}"
        " --seed {params.seed} --repeat {wildcards.repeat}"
        " --dataset {params.dataset} --out {output.record:q} > {log:q} 2>&1"


rule measure_moves:
    """Measure once what moving tensors costs on this machine, part by part."""
    input:
        info=f"{CORPUS}/corpus.json",
        data=[f"{FORMATS}/{format}" for format in plan.one_array],
    output:
        record=f"{RUNS}/moves/{{slug}}/{{repeat}}.json",
    log:
        f"{LOGS}/measure_moves/{{slug}}/{{repeat}}.log",
    priority: moves_priority
    conda:
        env("loaders")
    threads: workflow.cores
    params:
        code=code_hash("scripts.measure.measure_moves"),
        corpus=subpath(input.info, parent=True),
        dataset=plan.dataset,
        settings=lambda wildcards: settings(moves_path(wildcards)),
        data=lambda wildcards, input: " ".join(f"--data {path}" for path in input.data),
        workers=max(plan.readers_at_once),
        limit_minutes=plan.config["measure"]["limit_minutes"],
        threads=plan.config["measure"]["threads"],
        seed=plan.config["measure"]["seed"],
    shell:
        "python -m scripts.measure.measure_moves --corpus {params.corpus:q} {params.data} --settings {params.settings:q}"
        " --workers {params.workers} --limit-minutes {params.limit_minutes} --threads {params.threads}"
        " --seed {params.seed} --repeat {wildcards.repeat}"
        " --dataset {params.dataset} --out {output.record:q} > {log:q} 2>&1"
