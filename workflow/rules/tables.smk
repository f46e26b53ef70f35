rule make_tables:
    """Derive the tables from the runs."""
    input:
        proofs=all_proofs,
        sessions=collect(f"{RUNS}/explained-{{session}}.json", session=plan.groups),
        tensors=[move.path for move in plan.tensors.values()],
        formats=all_formats,
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
        content=plan.content_digest(),
        plan=plan.path,
    shell:
        "python -m scripts.tables.make_tables --plan {params.plan:q} --root . --out {output.tables:q} 2>&1 | tee {log:q}"


rule summarize_loader:
    """Gather all runs of one loader with their summary."""
    input:
        sessions=loader_sessions,
    output:
        summary="results/{loader}.json",
    log:
        f"{LOGS}/summarize_loader/{{loader}}.log",
    conda:
        env("report")
    params:
        version=REPORT,
        content=plan.content_digest(),
        dataset=plan.dataset,
        must=must_have_speed,
        plan=plan.path,
    shell:
        "python -m scripts.tables.summarize_loader --plan {params.plan:q} --loader {wildcards.loader} --root ."
        " {params.must} --out {output.summary:q} 2>&1 | tee {log:q}"
