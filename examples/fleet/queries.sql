-- Questions to the data set of a fleet (docs/dataset.md).
--
-- With DuckDB:     examples/fleet/run_queries.py FLEET          prints all, or --query NAME
--                  duckdb -c "SET VARIABLE fleet = 'FLEET'" -c '.read examples/fleet/queries.sql'
-- With others:     Make the views `transactions`, `traces` and `parameters`, of the same columns.
--                  The queries are standard SQL, and run in Spark as they stand. It begins with
--                    SET spark.sql.parquet.mergeSchema = true;
--                    CREATE TEMPORARY VIEW transactions AS SELECT *, bytes_db + … AS bytes, …
--                      FROM parquet.`FLEET/transactions`;
--
-- Bytes and flushes are those of transactions, at the device. The data set has no other writes.
-- Labels that are used: device, build, model, region. One that no trace has is null everywhere:
-- the view adds it. Its groups are then one, and `effect_of_build` has no row.

-- view: parameters
CREATE OR REPLACE VIEW parameters AS SELECT
    -- of effect_of_build
    'A' AS build_before,
    'B' AS build_after,
    -- of days_of_flash_life: bytes written to flash for each byte that the device is sent. Assumed:
    -- controllers do not say it, and it is between 1.5 and 5 for small synchronous writes.
    3e0 AS write_amplification,
    -- of slower_devices; null: the last day of the data set
    CAST(NULL AS DATE) AS last_day,
    2e0 AS slower_by;

-- view: transactions
-- `bytes` are those of all classes, `journaling_bytes` those of both journals.
CREATE OR REPLACE VIEW transactions AS
SELECT * REPLACE (CAST(day AS DATE) AS day),
    bytes_db + bytes_journal + coalesce(bytes_fs_journal, 0) + coalesce(bytes_metadata, 0) AS bytes,
    bytes_journal + coalesce(bytes_fs_journal, 0) AS journaling_bytes
FROM (
    SELECT * FROM read_parquet(
        coalesce(getvariable('fleet'), 'fleet') || '/transactions/**/*.parquet',
        union_by_name = true, hive_partitioning = true, hive_types_autocast = false)
    UNION ALL BY NAME
    SELECT CAST(NULL AS VARCHAR) AS device, CAST(NULL AS VARCHAR) AS build,
        CAST(NULL AS VARCHAR) AS model, CAST(NULL AS VARCHAR) AS region,
        CAST(NULL AS VARCHAR) AS day
    WHERE false
);

-- view: traces
CREATE OR REPLACE VIEW traces AS
SELECT * FROM read_parquet(
    coalesce(getvariable('fleet'), 'fleet') || '/traces/*.parquet', union_by_name = true)
UNION ALL BY NAME
SELECT CAST(NULL AS VARCHAR) AS device, CAST(NULL AS VARCHAR) AS build,
    CAST(NULL AS VARCHAR) AS model, CAST(NULL AS VARCHAR) AS region
WHERE false;

-- query: worst_databases
-- Which databases write most? The day is 24 hours like those that were recorded, on one device.
WITH by_trace AS (
    SELECT trace, database, count(*) AS transactions, sum(bytes) AS bytes, sum(flushes) AS flushes
    FROM transactions
    GROUP BY trace, database
)
SELECT traces.model, database,
    count(DISTINCT traces.device) AS devices,
    sum(by_trace.transactions) AS transactions,
    sum(bytes) / 1024e0 / sum(by_trace.transactions) AS kb_a_transaction,
    1e0 * sum(flushes) / sum(by_trace.transactions) AS flushes_a_transaction,
    sum(bytes) / 1e6 / (sum(duration_ns) / 86400e9) AS mb_a_day,
    sum(flushes) / (sum(duration_ns) / 86400e9) AS flushes_a_day
FROM by_trace JOIN traces ON traces.trace = by_trace.trace
WHERE duration_ns > 0
GROUP BY traces.model, database
ORDER BY mb_a_day DESC, traces.model, database
LIMIT 20;

-- query: journaling_by_file_system
-- How much of what is written is journaling, SQLite's and the file system's?
SELECT file_system, journal_mode,
    count(*) AS transactions,
    sum(bytes) / 1024e0 / count(*) AS kb_a_transaction,
    1e0 * sum(bytes_journal) / sum(bytes) AS journal_share,
    1e0 * sum(coalesce(bytes_fs_journal, 0)) / sum(bytes) AS fs_journal_share,
    1e0 * sum(journaling_bytes) / sum(bytes) AS journaling_share
FROM transactions
GROUP BY file_system, journal_mode
HAVING sum(bytes) > 0
ORDER BY journaling_share DESC, file_system, journal_mode;

-- query: effect_of_build
-- What does build_after change? Only devices that ran both builds count, each beside itself. The
-- ratio is the geometric mean over devices; its standard error says how much devices differ.
WITH by_device AS (
    SELECT device, build, max(model) AS model,
        1e0 * sum(bytes) / count(*) AS bytes,
        1e0 * sum(flushes) / count(*) AS flushes,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS latency_ns
    FROM transactions
    WHERE device IS NOT NULL
    GROUP BY device, build
),
pairs AS (
    SELECT later.model,
        ln(later.bytes / nullif(earlier.bytes, 0)) AS bytes_ln,
        ln(nullif(later.flushes, 0) / nullif(earlier.flushes, 0)) AS flushes_ln,
        ln(1e0 * later.latency_ns / nullif(earlier.latency_ns, 0)) AS latency_ln
    FROM parameters
    JOIN by_device AS earlier ON earlier.build = parameters.build_before
    JOIN by_device AS later
        ON later.build = parameters.build_after AND later.device = earlier.device
    WHERE later.bytes > 0
)
SELECT model, count(*) AS devices,
    exp(avg(bytes_ln)) AS bytes_ratio,
    exp(avg(bytes_ln)) * stddev_samp(bytes_ln) / sqrt(count(bytes_ln)) AS bytes_error,
    exp(avg(flushes_ln)) AS flushes_ratio,
    exp(avg(flushes_ln)) * stddev_samp(flushes_ln) / sqrt(count(flushes_ln)) AS flushes_error,
    exp(avg(latency_ln)) AS median_ms_ratio,
    exp(avg(latency_ln)) * stddev_samp(latency_ln) / sqrt(count(latency_ln)) AS median_ms_error
FROM pairs
GROUP BY model
ORDER BY model;

-- query: days_of_flash_life
-- How long does the flash of a model last, if each day is like what was recorded? The endurance is
-- in bytes that its flash may be written (TBW of the data sheet × 10¹²): put yours here.
WITH endurance (model, endurance_bytes) AS (
    VALUES ('kiosk', 40e12), ('till', 40e12), ('scanner', 20e12)
),
by_trace AS (
    SELECT trace, sum(bytes) AS bytes FROM transactions GROUP BY trace
)
SELECT traces.model, traces.build,
    count(DISTINCT traces.device) AS devices,
    sum(bytes) / 1e9 / (sum(duration_ns) / 86400e9) AS gb_a_day,
    max(endurance_bytes) / 1e12 AS endurance_tb,
    max(write_amplification) AS write_amplification,
    max(endurance_bytes) / max(write_amplification) / (sum(bytes) / (sum(duration_ns) / 86400e9))
        AS days
FROM traces
JOIN by_trace ON by_trace.trace = traces.trace
JOIN endurance ON endurance.model = traces.model
CROSS JOIN parameters
WHERE has_device AND duration_ns > 0
GROUP BY traces.model, traces.build
ORDER BY days, traces.model, traces.build;

-- query: slower_devices
-- On which devices has the 99 % quantile of latency doubled (slower_by), last week against the week
-- before? Both weeks need 30 transactions.
WITH last AS (
    SELECT coalesce(max(last_day), max(day)) AS day, max(slower_by) AS slower_by
    FROM transactions CROSS JOIN parameters
),
by_week AS (
    SELECT transactions.device,
        CASE WHEN transactions.day > last.day - INTERVAL '7' DAY THEN 1 ELSE 0 END AS is_last_week,
        max(model) AS model, max(build) AS build, max(last.slower_by) AS slower_by,
        count(*) AS transactions,
        percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS p99_ns
    FROM transactions CROSS JOIN last
    WHERE latency_ns IS NOT NULL
        AND transactions.day > last.day - INTERVAL '14' DAY AND transactions.day <= last.day
    GROUP BY transactions.device,
        CASE WHEN transactions.day > last.day - INTERVAL '7' DAY THEN 1 ELSE 0 END
    HAVING count(*) >= 30
)
SELECT later.device, later.model, earlier.build AS build_before, later.build,
    earlier.p99_ns / 1e6 AS p99_ms_before,
    later.p99_ns / 1e6 AS p99_ms,
    1e0 * later.p99_ns / earlier.p99_ns AS ratio,
    later.transactions
FROM by_week AS later JOIN by_week AS earlier ON earlier.device = later.device
WHERE later.is_last_week = 1 AND earlier.is_last_week = 0
    AND later.p99_ns >= later.slower_by * earlier.p99_ns
ORDER BY ratio DESC, later.device;

-- query: incomplete_traces
-- Of which traces is something missing: unreadable, cut off, events lost, or rows not here?
SELECT traces.trace, source, device, error, cut_off, events_lost, places_lost,
    traces.transactions - coalesce(present.transactions, 0) AS transactions_missing
FROM traces
LEFT JOIN (SELECT trace, count(*) AS transactions FROM transactions GROUP BY trace) AS present
    ON present.trace = traces.trace
WHERE error IS NOT NULL OR cut_off IS NOT NULL OR events_lost > 0 OR places_lost > 0
    OR traces.transactions <> coalesce(present.transactions, 0)
ORDER BY source, traces.trace;

-- query: recorder_share
-- How much of what reaches the devices does recording itself write?
WITH by_trace AS (
    SELECT trace, sum(bytes) AS bytes FROM transactions GROUP BY trace
)
SELECT model, recorder, count(*) AS traces,
    sum(recorder_bytes) / 1e6 AS recorder_mb,
    sum(bytes) / 1e6 AS transactions_mb,
    sum(recorder_bytes) / (1e0 * sum(recorder_bytes) + sum(coalesce(bytes, 0))) AS recorder_share
FROM traces LEFT JOIN by_trace ON by_trace.trace = traces.trace
WHERE recorder_bytes IS NOT NULL
GROUP BY model, recorder
HAVING sum(recorder_bytes) + sum(coalesce(bytes, 0)) > 0
ORDER BY model, recorder;
