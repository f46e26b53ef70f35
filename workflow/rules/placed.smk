for tier, options in plan.tiers.items():

    rule:
        """Copy a format to a tier; a copy in RAM serves one loader, and is given back after its last run."""
        name:
            f"place_on_{tier}"
        input:
            data=f"{FORMATS}/{{format}}",
            record=f"{FORMATS}/{{format}}.json",
        output:
            data=placed_data(tier),
            record=f"{PLACED}/{tier}/{options['copy_name']}.json",
        log:
            f"{LOGS}/place_on_{tier}/{options['copy_name']}.log",
        priority: options["order"]
        conda:
            env("loaders")
        threads: workflow.cores
        resources:
            slurm_extra=WHOLE_NODE,
        params:
            version=tier_version(tier, "place_format"),
            tier=tier,
            kind=options["kind"],
            options=json.dumps(options["place"]),
            name=placed_copy(tier),
        shell:
            "python -m scripts.prepare.place_format --kind {params.kind} --options {params.options:q} --tier {params.tier}"
            " --format {wildcards.format} --source {input.data:q} --copy {params.name:q}"
            " --record {output.record:q} 2>&1 | tee {log:q}"


rule profile_tier:
    """Find out what a tier is (device, file system) and what fio reads from it at item size."""
    output:
        record=f"{PLACED}/{{tier}}.json",
    log:
        f"{LOGS}/profile_tier/{{tier}}.log",
    priority: PLACING  # before a session: what it is, a report of one that was stopped has to know too
    conda:
        env("loaders")
    threads: workflow.cores
    resources:
        slurm_extra=WHOLE_NODE,
    params:
        version=lambda wildcards: tier_version(wildcards.tier, "profile_tier"),
        kind=lambda wildcards: plan.tiers[wildcards.tier]["kind"],
        options=lambda wildcards: json.dumps(plan.tiers[wildcards.tier]["options"]),
        item_bytes=plan.content["reads"]["item_bytes"],
        readers=plan.content["reads"]["readers"],
        seconds=plan.config["measure"]["profile_seconds"],
    shell:
        "python -m scripts.prepare.profile_tier --kind {params.kind} --options {params.options:q} --tier {wildcards.tier}"
        " --item-bytes {params.item_bytes} --readers {params.readers} --seconds {params.seconds} --out {output.record:q} 2>&1 | tee {log:q}"
