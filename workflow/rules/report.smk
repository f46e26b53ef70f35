rule draw_figures:
    """Draw the figures, for our own report and for Snakemake's."""
    input:
        tables=TABLES,
        others=compared_files("machines"),
    output:
        **{
            name: report(
                f"report/figures/{name}.svg",
                caption=f"../../report/figures/{name}.rst",
                category=chart.CATEGORY,
                labels={
                    "figure": chart.TITLE,
                    "question": chart.QUESTION,
                    "data": chart.DATA,
                },
            )
            for name, chart in CHARTS.items()
        },
        captions=collect("report/figures/{chart}.rst", chart=CHARTS),
    log:
        f"{LOGS}/draw_figures.log",
    priority: 1
    conda:
        env("report")
    params:
        code=code_hash("scripts.report.draw_figures"),
        folder=drawn_folder,
    shell:
        "python -m scripts.report.draw_figures --tables {input.tables:q} --out {params.folder:q} 2>&1 | tee {log:q}"


rule render_report:
    """Render our own report, one HTML file that needs nothing else, and a light one for Snakemake's report."""
    input:
        tables=TABLES,
        figures=collect("report/figures/{chart}.svg", chart=CHARTS),
        others=compared_files("baseline", "machines", "published"),
    output:
        report="report/index.html",
        about="report/index.json",
        light=report(
            "report/light.html",
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
        code=code_hash("scripts.report.render_report"),
        figures=figures_folder,
    shell:
        "python -m scripts.report.render_report --tables {input.tables:q} --figures {params.figures:q}"
        " --out {output.report:q} --light {output.light:q} 2>&1 | tee {log:q}"
