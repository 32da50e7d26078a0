#!/bin/sh
# Spark starts pods of executors with the argument "executor", and says the rest in the environment; else this is mqsniff.
set -eu
if [ "${1:-}" != executor ]; then
    exec mqsniff "$@"
fi
SPARK_HOME=$(python3 -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
export SPARK_HOME PYTHONPATH="$SPARK_HOME/python${PYTHONPATH:+:$PYTHONPATH}"
# Java's options come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
set --
number=0
while option=$(printenv "SPARK_JAVA_OPT_$number"); do
    set -- "$@" "$option"
    number=$((number + 1))
done
exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "${SPARK_CONF_DIR:-/nowhere}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
