rule prove_loader:
    """Prove that one loader delivers every clip of its data once, right, and with its labels: nothing is timed."""
    input:
        data=ancient(loader_data),
        format=loader_format,
        manifest=f"{CORPUS}/manifest.csv",
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
        run=planned(proof_path),
    shell:
        "python -m scripts.measure.run_loader --run {params.run:q} --out {output.record:q} > {log:q} 2>&1"


for group in plan.groups:

    rule:
        """Measure all proven results in blocks, one visit after the other, with nothing beside them."""
        name:
            f"measure_session_{group}"
        input:
            info=f"{CORPUS}/corpus.json",
            proofs=session_proofs(group),
            data=[ancient(path) for path in session_data(group)],
        output:
            session=f"{RUNS}/session-{group}.json",
        log:
            f"{LOGS}/measure_session/{group}.log",
        priority: 1000
        conda:
            env("loaders")
        threads: workflow.cores
        resources:
            slurm_extra=WHOLE_NODE,
        params:
            version=PROTOCOL,
            group=group,
            loaders=asked,
            config=json.dumps(plan.session_config),
        shell:
            "python -m scripts.measure.run_session --config {params.config:q} --group {params.group:q}"
            " --loaders {params.loaders:q} --out {output.session:q} --log {log:q}"


rule measure_tensors:
    """Measure once what moving tensors costs on this machine, part by part."""
    input:
        info=f"{CORPUS}/corpus.json",
        data=[f"{FORMATS}/{format}" for format in plan.single_file],
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
        run=planned(tensors_path),
    shell:
        "python -m scripts.measure.measure_tensors --run {params.run:q} --out {output.record:q} > {log:q} 2>&1"
