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
    priority: in_order(run_path)
    conda:
        loader_env
    threads: workflow.cores
    params:
        protocol=PROTOCOL,
        code=run_code,
        run=planned(run_path),
    shell:
        "python -m scripts.measure.run_loader --run {params.run:q} --out {output.record:q} > {log:q} 2>&1"


rule measure_bound:
    """Measure once what this machine gives when the data is in RAM and nothing has to be loaded."""
    input:
        info=f"{CORPUS}/corpus.json",
    output:
        record=f"{RUNS}/bounds/warm/{{slug}}/{{repeat}}.json",
    log:
        f"{LOGS}/measure_bound/{{slug}}/{{repeat}}.log",
    priority: in_order(bound_path)
    conda:
        env("loaders")
    threads: workflow.cores
    params:
        code=code_hash("scripts.measure.measure_bound"),
        run=planned(bound_path),
    shell:
        "python -m scripts.measure.measure_bound --run {params.run:q} --out {output.record:q} > {log:q} 2>&1"


rule measure_tensors:
    """Measure once what moving tensors costs on this machine, part by part."""
    input:
        info=f"{CORPUS}/corpus.json",
        data=[f"{FORMATS}/{format}" for format in plan.single_file],
    output:
        record=f"{RUNS}/tensors/{{slug}}/{{repeat}}.json",
    log:
        f"{LOGS}/measure_tensors/{{slug}}/{{repeat}}.log",
    priority: in_order(tensors_path)
    conda:
        env("loaders")
    threads: workflow.cores
    params:
        code=code_hash("scripts.measure.measure_tensors"),
        run=planned(tensors_path),
    shell:
        "python -m scripts.measure.measure_tensors --run {params.run:q} --out {output.record:q} > {log:q} 2>&1"
