PLACES = [(tier, WHOLE, "", plan.tiers[tier]["copy_name"]) for tier in plan.tiers]
PLACES += [
    (tier, PART, "part/", "{format}") for tier in (plan.part or {}).get("tiers", ())
]

for tier, size, below, copy_name in PLACES:

    rule:
        """Have a format on a tier; a copy in RAM, and what is of a part, is given back after its last run."""
        name:
            f"place_{'part_' if size == PART else ''}on_{tier}"
        input:
            data=f"{FORMATS}/{below}{{format}}",
            record=f"{FORMATS}/{below}{{format}}.json",
        output:
            data=placed_data(tier, size),
            record=f"{PLACED}/{tier}/{below}{copy_name}.json",
        log:
            f"{LOGS}/place_on_{tier}/{below}{copy_name}.log",
        priority: plan.tiers[tier]["order"]
        conda:
            env("loaders")
        threads: workflow.cores
        resources:
            slurm_extra=WHOLE_NODE,
        params:
            version=tier_version(tier, "place_format"),
            tier=tier,
            kind=plan.tiers[tier]["kind"],
            options=json.dumps(plan.tiers[tier]["place"]),
            name=placed_copy(tier, size),
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
