rule write_format:
    """Write the corpus in one format; how long that takes, and how much it makes, is a result."""
    input:
        manifest=f"{CORPUS}/manifest.csv",
    output:
        data=(
            lambda data: data if plan.config["measure"]["keep_data"] else temp(data)
        )(directory(f"{FORMATS}/{{format}}")),
        record=f"{FORMATS}/{{format}}.json",
    log:
        f"{LOGS}/write_format/{{format}}.log",
    priority: PLACING
    conda:
        format_env
    threads: workflow.cores
    params:
        version=format_version,
        corpus=subpath(input.manifest, parent=True),
        readers=lambda wildcards: plan.formats[wildcards.format]["readers"],
        files=users_files,
    shell:
        "python -m scripts.prepare.write_format --format {wildcards.format} --corpus {params.corpus:q}"
        " --readers {params.readers} --out {output.data:q} --record {output.record:q} {params.files:q} 2>&1 | tee {log:q}"


use rule write_format as write_part_format with:
    input:
        manifest=f"{CORPUS}/part/manifest.csv",
    output:
        data=temp(directory(f"{FORMATS}/part/{{format}}")),
        record=f"{FORMATS}/part/{{format}}.json",
    log:
        f"{LOGS}/write_format/part/{{format}}.log",
