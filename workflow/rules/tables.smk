rule write_plan:
    """Write down what the config asks for, so that the tables hold just that."""
    output:
        plan=f"{RUNS}/plan.json",
    log:
        f"{LOGS}/write_plan.log",
    conda:
        env("workflow")
    params:
        version=REPORT,
        # The preset's values are in it already, below those of the command line.
        config=json.dumps({**plan.config, "preset": "none"}),
        preset=plan.config["preset"],
        gpu=plan.has_gpu,
        declared=json.dumps(declared_facts()),
    shell:
        "python -m scripts.plan.write_plan --config {params.config:q} --preset {params.preset:q} --out {output.plan:q} 2> {log:q}"


rule make_tables:
    """Derive the tables from the runs."""
    input:
        plan=f"{RUNS}/plan.json",
        proofs=list(plan.proofs),
        sessions=collect(f"{RUNS}/session-{{group}}.json", group=plan.groups),
        tensors=[move.path for move in plan.tensors],
        formats=expand(f"{FORMATS}/{{format}}.json", format=plan.formats),
        tiers=expand(f"{PLACED}/{{tier}}.json", tier=plan.tiers),
        info=f"{CORPUS}/corpus.json",
        clips=f"{CLIPS}/clips.json",
    output:
        tables=directory(TABLES),
    log:
        f"{LOGS}/make_tables.log",
    priority: 1  # what the report waits for, before the loaders' summaries
    conda:
        env("report")
    params:
        version=REPORT,
    shell:
        "python -m scripts.tables.make_tables --plan {input.plan:q} --root . --out {output.tables:q} 2>&1 | tee {log:q}"


rule summarize_loader:
    """Gather all runs of one loader with their summary."""
    input:
        plan=f"{RUNS}/plan.json",
        sessions=loader_sessions,
    output:
        summary="results/{loader}.json",
    log:
        f"{LOGS}/summarize_loader/{{loader}}.log",
    conda:
        env("report")
    params:
        version=REPORT,
    shell:
        "python -m scripts.tables.summarize_loader --plan {input.plan:q} --loader {wildcards.loader} --root ."
        " --out {output.summary:q} 2>&1 | tee {log:q}"
