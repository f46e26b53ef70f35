rule draw_figures:
    """Draw the figures, for our own report and for Snakemake's."""
    input:
        tables=TABLES,
        others=plan.compared_files("machines"),
    output:
        **{
            name: report(
                f"{FIGURES}/{name}.svg",
                caption=f"../../{FIGURES}/{name}.rst",
                category=chart.CATEGORY,
                labels={
                    "figure": chart.TITLE,
                    "question": chart.QUESTION,
                    "data": chart.DATA,
                },
            )
            for name, chart in CHARTS.items()
        },
        captions=collect(f"{FIGURES}/{{chart}}.rst", chart=CHARTS),
    log:
        f"{LOGS}/draw_figures.log",
    priority: 1
    conda:
        env("report")
    params:
        version=REPORT,
        folder=lambda wildcards, output: Path(output.captions[0]).parent,
    shell:
        "python -m scripts.report.draw_figures --tables {input.tables:q} --out {params.folder:q} 2>&1 | tee {log:q}"


rule render_report:
    """Render our own report, one HTML file that needs nothing else, and a light one for Snakemake's report."""
    input:
        tables=TABLES,
        figures=collect(f"{FIGURES}/{{chart}}.svg", chart=CHARTS),
        others=plan.compared_files("baseline", "machines", "published"),
    output:
        report="report/index.html",
        light=report(
            f"{FIGURES}/light.html",
            caption="../../report/captions/report.rst",
            category="1 Report",
            labels={
                "figure": "The report",
                "question": "What should be used here, and why?",
                "data": "all tables",
            },
        ),
    log:
        f"{LOGS}/render_report.log",
    conda:
        env("report")
    params:
        version=REPORT,
        figures=subpath(output.light, parent=True),
    shell:
        "python -m scripts.report.render_report --tables {input.tables:q} --figures {params.figures:q}"
        " --out {output.report:q} --light {output.light:q} 2>&1 | tee {log:q}"
