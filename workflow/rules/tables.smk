SHARED = "tables ranking run_records bottlenecks measure/stats".split()
MADE_BY = {  # what tables are derived with: a change of it derives them anew
    "make_tables": [
        f"scripts/{name}.py"
        for name in (
            *SHARED,
            *"make_tables bounds drift training_table moves_table".split(),
            *"break_even ladder_table latency_table span_table".split(),
        )
    ],
    "summarize_loader": [
        f"scripts/{name}.py" for name in (*SHARED, "summarize_loader")
    ],
}


rule write_plan:
    """Write down what the config asks for, so that the tables hold just that."""
    output:
        plan=f"{RUNS}/plan.json",
    log:
        f"{LOGS}/write_plan.log",
    conda:
        env("workflow")
    params:
        # The preset's values are in it already, below those of the command line.
        config=json.dumps({**plan.config, "preset": "none"}),
        preset=plan.config["preset"],
        gpu=plan.has_gpu,
    shell:
        "python scripts/plan.py --config {params.config:q} --preset {params.preset:q} --out {output.plan:q} 2> {log:q}"


rule make_tables:
    """Derive the tables from the runs."""
    input:
        plan=f"{RUNS}/plan.json",
        runs=[run.path for run in plan.runs],
        bounds=[bound.path for bound in plan.bounds],
        moves=[move.path for move in plan.moves],
        formats=expand(f"{FORMATS}/{{format}}.json", format=plan.formats),
        tiers=expand(f"{PLACED}/{{tier}}.json", tier=plan.tiers),
        info=f"{CORPUS}/corpus.json",
        clips=f"{CLIPS}/clips.json",
        code=MADE_BY["make_tables"],
    output:
        tables=directory(TABLES),
    log:
        f"{LOGS}/make_tables.log",
    conda:
        env("report")
    shell:
        "python scripts/make_tables.py --plan {input.plan:q} --root . --out {output.tables:q} 2>&1 | tee {log:q}"


rule summarize_loader:
    """Gather all runs of one loader with their summary."""
    input:
        plan=f"{RUNS}/plan.json",
        runs=loader_runs,
        code=MADE_BY["summarize_loader"],
    output:
        summary="results/{loader}.json",
    log:
        f"{LOGS}/summarize_loader/{{loader}}.log",
    conda:
        env("report")
    shell:
        "python scripts/summarize_loader.py --plan {input.plan:q} --loader {wildcards.loader} --root ."
        " --out {output.summary:q} 2>&1 | tee {log:q}"
