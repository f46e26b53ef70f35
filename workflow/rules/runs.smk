rule prove_loader:
    """Prove that one loader delivers every item of its data once, right, and with its labels: nothing is timed."""
    input:
        data=ancient(loader_data),
        format=lambda wildcards: f"{proven(wildcards).written}.json",
        manifest=lambda wildcards: f"{proven(wildcards).corpus}/manifest.csv",
    output:
        record=f"{RUNS}/{{tier}}/{{loader}}/{{slug}}/proof.json",
    log:
        f"{LOGS}/prove_loader/{{tier}}/{{loader}}/{{slug}}.log",
    conda:
        loader_env
    threads: 1  # nothing is timed: proofs run beside one another
    resources:
        slurm_extra=WHOLE_NODE,
    params:
        version=run_version,
        plan=plan.path,
    shell:
        "python -m scripts.measure.run_loader --plan {params.plan:q} --mode proof"
        " --result {wildcards.tier}/{wildcards.loader}/{wildcards.slug} --out {output.record:q} > {log:q} 2>&1"


rule measure_session:
    """Measure the proven results of a session in rounds, one run after the other, with nothing beside them."""
    input:
        info=f"{CORPUS}/corpus.json",
        proofs=session_proofs,
        data=ancient(session_data),
    output:
        session=f"{RUNS}/session-{{session}}.json",
    log:
        f"{LOGS}/measure_session/{{session}}.log",
    priority: 1000
    conda:
        env("loaders")
    threads: workflow.cores
    resources:
        slurm_extra=WHOLE_NODE,
    params:
        version=PROTOCOL,
        results=lambda wildcards: plan.session_digest(wildcards.session),
        failures=lambda wildcards: plan.failures(wildcards.session),  # has it grown, they are tried again
        plan=plan.path,
    shell:
        "python -m scripts.measure.run_session --plan {params.plan:q} --session {wildcards.session:q}"
        " --out {output.session:q} --log {log:q}"


checkpoint choose_whole:
    """Choose what is measured with all items, by the speeds of a part of them and by what there is room for."""
    input:
        session=f"{RUNS}/explained-{PART}.json",
    output:
        chosen=f"{RUNS}/whole.json",
    log:
        f"{LOGS}/choose_whole.log",
    conda:
        env("loaders")
    params:
        version=stage_version("measure.choose_whole"),
        now=plan.config["report"]["now"],
        plan=plan.path,
    shell:
        "python -m scripts.measure.choose_whole --plan {params.plan:q} --out {output.chosen:q} 2>&1 | tee {log:q}"


rule explain_session:
    """Explain the leaders again, where only the user's own step or current loader is another than in the session."""
    input:
        session=f"{RUNS}/session-{{session}}.json",
    output:
        explained=f"{RUNS}/explained-{{session}}.json",
    log:
        f"{LOGS}/explain_session/{{session}}.log",
    conda:
        env("loaders")
    threads: workflow.cores
    resources:
        slurm_extra=WHOLE_NODE,
    params:
        version=PROTOCOL,
        step_ms=plan.config["report"]["step_ms"],
        now=plan.config["report"]["now"],
        plan=plan.path,
    shell:
        "python -m scripts.measure.run_session --plan {params.plan:q} --session {wildcards.session:q} --explain"
        " --out {output.explained:q} --log {log:q}"


rule measure_tensors:
    """Measure once what moving tensors costs on this machine, part by part."""
    input:
        info=f"{CORPUS}/corpus.json",
        data=[f"{FORMATS}/{format}" for format in plan.content["single_file"]],
    output:
        record=f"{RUNS}/tensors/{{slug}}/{{repeat}}.json",
    log:
        f"{LOGS}/measure_tensors/{{slug}}/{{repeat}}.log",
    conda:
        env("loaders")
    threads: workflow.cores
    resources:
        slurm_extra=WHOLE_NODE,
    params:
        version=stage_version("measure.measure_tensors"),
        plan=plan.path,
    shell:
        "python -m scripts.measure.measure_tensors --plan {params.plan:q}"
        " --result tensors/{wildcards.slug}/{wildcards.repeat} --out {output.record:q} > {log:q} 2>&1"
