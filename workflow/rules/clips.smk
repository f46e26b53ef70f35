rule fetch_clips:
    """Bring one shard of raw clips in their original encoding, and a ledger row for each."""
    input:
        code=f"scripts/sources/{plan.source}.py",
        watched=plan.watched,
    output:
        ledger=f"{CLIPS}/ledger-{{shard}}.csv",
    log:
        f"{LOGS}/fetch_clips/{{shard}}.log",
    benchmark:
        f"{LOGS}/fetch_clips/{{shard}}.tsv"
    conda:
        env("corpus")
    params:
        source=plan.source,
        options=json.dumps(plan.options),
        seconds=plan.config["audio"]["seconds"],
        shards=plan.shards,
        store=f"{CLIPS}/store",
    shell:
        "python scripts/fetch_clips.py --source {params.source} --options {params.options:q}"
        " --clip-seconds {params.seconds} --shard {wildcards.shard} --shards {params.shards}"
        " --store {params.store:q} --ledger {output.ledger:q} 2>&1 | tee {log:q}"
