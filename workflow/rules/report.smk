rule draw_figures:
    """Draw the figures, for our own report and for Snakemake's."""
    input:
        tables=TABLES,
        code=[
            "scripts/draw_figures.py",
            "scripts/figure_concurrency.py",
            "scripts/figure_parts.py",
        ],
    output:
        throughput=report(
            "report/figures/throughput.svg",
            caption="../../report/captions/throughput.rst",
            category="Results",
            labels={"figure": "Throughput by loader and tier"},
        ),
        scaling=report(
            "report/figures/scaling.svg",
            caption="../../report/captions/scaling.rst",
            category="Results",
            labels={"figure": "Scaling with workers"},
        ),
        concurrency=report(
            "report/figures/concurrency.svg",
            caption="../../report/captions/concurrency.rst",
            category="Results",
            labels={"figure": "Workers against batch size"},
        ),
        first_batch=report(
            "report/figures/first_batch.svg",
            caption="../../report/captions/first_batch.rst",
            category="Results",
            labels={"figure": "Time to first batch"},
        ),
        training=report(
            "report/figures/training.svg",
            caption="../../report/captions/training.rst",
            category="Results",
            labels={"figure": "Training, bare and by Lightning"},
        ),
        conversion=report(
            "report/figures/conversion.svg",
            caption="../../report/captions/conversion.rst",
            category="Costs",
            labels={"figure": "Conversion cost by format"},
        ),
    log:
        f"{LOGS}/draw_figures.log",
    conda:
        env("report")
    params:
        folder=subpath(output.throughput, parent=True),
    shell:
        "python scripts/draw_figures.py --tables {input.tables:q} --out {params.folder:q} 2>&1 | tee {log:q}"


rule render_report:
    """Render our own report: one HTML file that needs nothing else."""
    input:
        tables=TABLES,
        figures=rules.draw_figures.output,
        template=[
            "report/template/report.html.j2",
            "report/template/parts.html.j2",
            "report/template/moves.html.j2",
            "report/template/style.css",
        ],
        code="scripts/render_report.py",
    output:
        report=report(
            "report/index.html",
            caption="../../report/captions/report.rst",
            category="Report",
            labels={"figure": "The full report"},
        ),
    log:
        f"{LOGS}/render_report.log",
    conda:
        env("report")
    params:
        figures=figures_folder,
    shell:
        "python scripts/render_report.py --tables {input.tables:q} --figures {params.figures:q}"
        " --out {output.report:q} 2>&1 | tee {log:q}"
