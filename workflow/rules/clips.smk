kind_options = (
    []
    if plan.kind == "audio"
    else [f"--kind-options {shlex.quote(json.dumps(plan.kind_options))}"]
)


rule prepare_clips:
    """Do once what all shards of a source need, such as getting a list; fail early where something is missing."""
    input:
        inputs=plan.source_inputs,
    output:
        prepared=directory(f"{CLIPS}/prepared"),
    log:
        f"{LOGS}/prepare_clips.log",
    conda:
        env(plan.source_env)
    params:
        version=prepare_version("prepare_clips", sources=plan.source),
        source=plan.source,
        options=json.dumps(plan.choice),
        seconds=plan.config["audio"]["seconds"],
        shards=plan.shards,
        store=f"{CLIPS}/store",
    shell:
        "python -m scripts.prepare.prepare_clips --source {params.source} --options {params.options:q}"
        " --clip-seconds {params.seconds} --shards {params.shards} --store {params.store:q}"
        " --out {output.prepared:q} 2>&1 | tee {log:q}"


rule fetch_clips:
    """Bring one shard of raw clips in their original encoding, and a ledger row for each."""
    input:
        inputs=plan.source_inputs,
        prepared=plan.prepared,
    output:
        ledger=f"{CLIPS}/ledger-{{shard}}.csv",
    log:
        f"{LOGS}/fetch_clips/{{shard}}.log",
    benchmark:
        f"{LOGS}/fetch_clips/{{shard}}.tsv"
    conda:
        env(plan.source_env)
    resources:
        downloads=plan.downloads,
    params:
        source=plan.source,
        options=json.dumps(plan.choice),
        seconds=plan.config["audio"]["seconds"],
        of_kind=kind_options,
        shards=plan.shards,
        store=f"{CLIPS}/store",
        version=prepare_version("fetch_clips", sources=plan.source),
        prepared=[f"--prepared {path}" for path in plan.prepared],
        ended_early=ended_early,
    shell:
        "python -m scripts.prepare.fetch_clips --source {params.source} --options {params.options:q}"
        " --clip-seconds {params.seconds} --shard {wildcards.shard} --shards {params.shards}"
        " --store {params.store:q} {params.of_kind} {params.prepared} --ledger {output.ledger:q} 2>&1 | tee {log:q}"


rule count_clips:
    """Say of how many clips what became; stop where there are too few to go on with."""
    input:
        ledgers=expand(f"{CLIPS}/ledger-{{shard}}.csv", shard=plan.shard_names),
    output:
        counts=f"{CLIPS}/clips.json",
    log:
        f"{LOGS}/count_clips.log",
    conda:
        env("loaders")
    params:
        version=prepare_version("count_clips"),
        folder=subpath(output.counts, parent=True),
        shards=plan.shards,
        min_clips=plan.min_clips,
    shell:
        "python -m scripts.prepare.count_clips --ledgers {params.folder:q} --shards {params.shards}"
        " --min-clips {params.min_clips} --out {output.counts:q} 2>&1 | tee {log:q}"
