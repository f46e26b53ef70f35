rule build_corpus:
    """Make files of the corpus of one shard's items, of audio 16-bit WAV; name those that are left out."""
    input:
        ledger=f"{CLIPS}/ledger-{{shard}}.csv",
    output:
        files=directory(f"{CORPUS}/shards/{{shard}}"),
    log:
        f"{LOGS}/build_corpus/{{shard}}.log",
    benchmark:
        f"{LOGS}/build_corpus/{{shard}}.tsv"
    conda:
        env("loaders")
    threads: 4
    params:
        version=prepare_version("build_corpus", kinds=plan.kind),
        store=f"{CLIPS}/store",
        kind=plan.kind,
        kind_options=json.dumps(plan.content["kind_options"]),
    shell:
        "python -m scripts.prepare.build_corpus --ledger {input.ledger:q} --store {params.store:q}"
        " --kind {params.kind} --kind-options {params.kind_options:q}"
        " --jobs {threads} --out {output.files:q} 2>&1 | tee {log:q}"


rule index_corpus:
    """Decide once, for every format, the items' order, split, labels and hashes."""
    input:
        shards=expand(f"{CORPUS}/shards/{{shard}}", shard=plan.shard_names),
        counts=f"{CLIPS}/clips.json",
    output:
        manifest=f"{CORPUS}/manifest.csv",
        classes=f"{CORPUS}/classes.csv",
        rejected=f"{CORPUS}/rejected.csv",
        remarks=f"{CORPUS}/remarks.csv",
        info=f"{CORPUS}/corpus.json",
    log:
        f"{LOGS}/index_corpus.log",
    conda:
        env("loaders")
    params:
        version=prepare_version("index_corpus", kinds=plan.kind),
        folder=subpath(output.info, parent=True),
        shards=plan.source["shards"],
        kind=plan.kind,
        kind_options=json.dumps(plan.content["kind_options"]),
        validation=plan.config["split"]["validation"],
        split_seed=plan.config["split"]["seed"],
    shell:
        "python -m scripts.prepare.index_corpus --shards-dir {params.folder:q}/shards --count {params.shards}"
        " --kind {params.kind} --kind-options {params.kind_options:q} --validation {params.validation}"
        " --split-seed {params.split_seed} --out {params.folder:q} 2>&1 | tee {log:q}"


rule select_part:
    """Select the part of the items that is measured first, where memory cannot hold all formats of all of them."""
    input:
        manifest=f"{CORPUS}/manifest.csv",
    output:
        manifest=f"{CORPUS}/part/manifest.csv",
        classes=f"{CORPUS}/part/classes.csv",
        info=f"{CORPUS}/part/corpus.json",
    log:
        f"{LOGS}/select_part.log",
    conda:
        env("loaders")
    params:
        version=stage_version("prepare.select_part"),
        corpus=subpath(input.manifest, parent=True),
        many=(plan.part or {}).get("items"),
        folder=subpath(output.info, parent=True),
    shell:
        "python -m scripts.prepare.select_part --corpus {params.corpus:q} --items {params.many}"
        " --out {params.folder:q} 2>&1 | tee {log:q}"
