rule draw_figures:
    """Draw the figures, for our own report and for Snakemake's."""
    input:
        tables=TABLES,
    output:
        throughput=report(
            "report/figures/throughput.svg",
            caption="../../report/captions/throughput.rst",
            category="2 Speed",
            labels={
                "figure": "Throughput by loader and tier",
                "question": "Which loader is the fastest?",
                "data": "best.csv, runs.csv, bounds.csv",
            },
        ),
        roofline=report(
            "report/figures/roofline.svg",
            caption="../../report/captions/roofline.rst",
            category="2 Speed",
            labels={
                "figure": "Distance to the bound",
                "question": "How near is it to what the machine allows?",
                "data": "best.csv",
            },
        ),
        latency=report(
            "report/figures/latency.svg",
            caption="../../report/captions/latency.rst",
            category="2 Speed",
            labels={
                "figure": "Time between batches",
                "question": "How evenly do batches come?",
                "data": "latencies.csv, best.csv",
            },
        ),
        first_batch=report(
            "report/figures/first_batch.svg",
            caption="../../report/captions/first_batch.rst",
            category="2 Speed",
            labels={
                "figure": "Time to first batch",
                "question": "How soon can the training begin?",
                "data": "best.csv, runs.csv",
            },
        ),
        training=report(
            "report/figures/training.svg",
            caption="../../report/captions/training.rst",
            category="2 Speed",
            labels={
                "figure": "Training, bare and by Lightning",
                "question": "Does it matter to a real training?",
                "data": "training.csv, ranking.csv, runs.csv",
            },
        ),
        scaling=report(
            "report/figures/scaling.svg",
            caption="../../report/captions/scaling.rst",
            category="4 Settings",
            labels={
                "figure": "Scaling with workers",
                "question": "How many workers?",
                "data": "ranking.csv",
            },
        ),
        batch_size=report(
            "report/figures/batch_size.svg",
            caption="../../report/captions/batch_size.rst",
            category="4 Settings",
            labels={
                "figure": "Scaling with batch size",
                "question": "Which batch size?",
                "data": "ranking.csv",
            },
        ),
        concurrency=report(
            "report/figures/concurrency.svg",
            caption="../../report/captions/concurrency.rst",
            category="4 Settings",
            labels={
                "figure": "Workers against batch size",
                "question": "Which of both together?",
                "data": "ranking.csv",
            },
        ),
        cold=report(
            "report/figures/cold.svg",
            caption="../../report/captions/cold.rst",
            category="4 Settings",
            labels={
                "figure": "Cold and limited caches against warm",
                "question": "What if the data does not fit into memory?",
                "data": "best.csv",
            },
        ),
        ladder=report(
            "report/figures/ladder.svg",
            caption="../../report/captions/ladder.rst",
            category="3 Causes",
            labels={
                "figure": "Ladder of optimisations",
                "question": "What does each optimisation gain?",
                "data": "ladder.csv",
            },
        ),
        timeline=report(
            "report/figures/timeline.svg",
            caption="../../report/captions/timeline.rst",
            category="3 Causes",
            labels={
                "figure": "Timeline of the first batches",
                "question": "What do the processes do meanwhile?",
                "data": "spans.csv",
            },
        ),
        memory=report(
            "report/figures/memory.svg",
            caption="../../report/captions/memory.rst",
            category="5 Costs",
            labels={
                "figure": "Memory against workers",
                "question": "How much memory does it take?",
                "data": "ranking.csv",
            },
        ),
        conversion=report(
            "report/figures/conversion.svg",
            caption="../../report/captions/conversion.rst",
            category="5 Costs",
            labels={
                "figure": "Conversion cost by format",
                "question": "What does a format cost?",
                "data": "formats.csv",
            },
        ),
        break_even=report(
            "report/figures/break_even.svg",
            caption="../../report/captions/break_even.rst",
            category="5 Costs",
            labels={
                "figure": "Break-even epochs",
                "question": "After how many epochs has a format paid?",
                "data": "break_even.csv",
            },
        ),
        sizes=report(
            "report/figures/sizes.svg",
            caption="../../report/captions/sizes.rst",
            category="5 Costs",
            labels={
                "figure": "Size of the data set against memory",
                "question": "Does the data set fit into memory?",
                "data": "formats.csv, host.json",
            },
        ),
    log:
        f"{LOGS}/draw_figures.log",
    conda:
        env("report")
    params:
        code=code_hash("scripts.report.draw_figures"),
        folder=subpath(output.throughput, parent=True),
    shell:
        "python -m scripts.report.draw_figures --tables {input.tables:q} --out {params.folder:q} 2>&1 | tee {log:q}"


rule render_report:
    """Render our own report, one HTML file that needs nothing else, and a light one for Snakemake's report."""
    input:
        tables=TABLES,
        figures=rules.draw_figures.output,
        programs=[plan.code(loader) for loader in plan.loaders],
    output:
        report="report/index.html",
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
