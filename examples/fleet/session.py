"""A Spark session that says only what is wrong, and how far it is."""

import sys

from pyspark import SparkConf
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
}


def quiet_session(name: str) -> SparkSession:
    """What spark-submit is told by --conf stays."""
    settings = SparkConf()
    for key, value in SETTINGS.items():
        settings.setIfMissing(key, value)
    return SparkSession.builder.appName(name).config(conf=settings).getOrCreate()
