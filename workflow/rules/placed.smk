for tier, options in plan.tiers.items():

    rule:
        """Copy a format to a tier; a copy in RAM serves one loader, and is given back after its last run."""
        name:
            f"place_on_{tier}"
        input:
            data=f"{FORMATS}/{{format}}",
            record=f"{FORMATS}/{{format}}.json",
            code=f"scripts/tiers/{options['kind']}.py",
        output:
            data=(
                temp(directory(plan.placed(tier)))
                if plan.volatile(tier)
                else directory(plan.placed(tier))
            ),
            record=f"{PLACED}/{tier}/{plan.copy_name(tier)}.json",
        log:
            f"{LOGS}/place_on_{tier}/{plan.copy_name(tier)}.log",
        priority: plan.placing_order(tier)
        conda:
            env("formats")
        threads: workflow.cores
        params:
            tier=tier,
            kind=options["kind"],
            options=json.dumps(plan.place_of(tier)),
        shell:
            "python scripts/place_format.py --kind {params.kind} --options {params.options:q} --tier {params.tier}"
            " --format {wildcards.format} --source {input.data:q} --out {output.data:q}"
            " --record {output.record:q} 2>&1 | tee {log:q}"


rule profile_tier:
    """Find out what a tier is (device, file system) and what fio reads from it at clip size."""
    input:
        code=lambda wildcards: f"scripts/tiers/{plan.tiers[wildcards.tier]['kind']}.py",
    output:
        record=f"{PLACED}/{{tier}}.json",
    log:
        f"{LOGS}/profile_tier/{{tier}}.log",
    conda:
        env("formats")
    threads: workflow.cores
    params:
        kind=lambda wildcards: plan.tiers[wildcards.tier]["kind"],
        options=lambda wildcards: json.dumps(plan.tiers[wildcards.tier]),
        clip_bytes=plan.clip_sizes,
        readers=plan.readers_at_once,
        seconds=plan.config["measure"]["profile_seconds"],
    shell:
        "python scripts/profile_tier.py --kind {params.kind} --options {params.options:q} --tier {wildcards.tier}"
        " --clip-bytes {params.clip_bytes} --readers {params.readers} --seconds {params.seconds} --out {output.record:q} 2>&1 | tee {log:q}"
