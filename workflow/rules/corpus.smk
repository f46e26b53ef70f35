rule build_corpus:
    """Decode, mix and resample the clips of one shard into 16-bit WAV; name those that are left out."""
    input:
        ledger=f"{CLIPS}/ledger-{{shard}}.csv",
    output:
        wavs=directory(f"{CORPUS}/shards/{{shard}}"),
    log:
        f"{LOGS}/build_corpus/{{shard}}.log",
    benchmark:
        f"{LOGS}/build_corpus/{{shard}}.tsv"
    conda:
        env("loaders")
    threads: 4
    params:
        code=code_hash("scripts.prepare.build_corpus"),
        store=f"{CLIPS}/store",
        sample_rate=plan.config["audio"]["sample_rate"],
        seconds=plan.config["audio"]["seconds"],
        min_seconds=plan.config["audio"]["min_seconds"],
        limits=[
            f"--{key.replace('_', '-')} {plan.config['audio'][key]}"
            for key in ("lowest_rate", "highest_rate", "clips_per_file", "growth")
        ],
    shell:
        "python -m scripts.prepare.build_corpus --ledger {input.ledger:q} --store {params.store:q}"
        " --sample-rate {params.sample_rate} --seconds {params.seconds} --min-seconds {params.min_seconds}"
        " {params.limits} --jobs {threads} --out {output.wavs:q} 2>&1 | tee {log:q}"


rule index_corpus:
    """Decide once, for every format, the clips' order, split, labels and hashes."""
    input:
        shards=expand(f"{CORPUS}/shards/{{shard}}", shard=plan.shard_names),
        counts=f"{CLIPS}/clips.json",
    output:
        manifest=f"{CORPUS}/manifest.csv",
        classes=f"{CORPUS}/classes.csv",
        rejected=f"{CORPUS}/rejected.csv",
        info=f"{CORPUS}/corpus.json",
    log:
        f"{LOGS}/index_corpus.log",
    conda:
        env("loaders")
    params:
        code=code_hash("scripts.prepare.index_corpus"),
        folder=subpath(output.info, parent=True),
        shards=plan.shards,
        sample_rate=plan.config["audio"]["sample_rate"],
        seconds=plan.config["audio"]["seconds"],
        validation=plan.config["split"]["validation"],
        split_seed=plan.config["split"]["seed"],
    shell:
        "python -m scripts.prepare.index_corpus --shards-dir {params.folder:q}/shards --count {params.shards}"
        " --sample-rate {params.sample_rate} --seconds {params.seconds} --validation {params.validation}"
        " --split-seed {params.split_seed} --out {params.folder:q} 2>&1 | tee {log:q}"
