//! Latencies against what can be said of them in closed form.

use oneflush_flash::nand::Array;
use oneflush_flash::{Device, Model, Preset, Timing};

use crate::common::{Random, UNIT, bare, counting, flush, read, write, write_fua};

const TIMING: Timing = Timing {
    read_ns: 50_000,
    program_ns: 1_300_000,
    erase_ns: 3_000_000,
    bus_mb_per_s: 200,
    command_ns: 96_000,
    flush_ns: 500_000,
};

/// `4096 ÷ 200` µs.
const TRANSFER_NS: u64 = 20_480;

fn model(dies: u32, cache_units: u64) -> Model {
    let mut model = bare(64, 0.25);
    model.shape.dies = dies;
    model.timing = TIMING;
    model.cache_bytes = cache_units * UNIT;
    model
}

fn device(dies: u32, cache_units: u64) -> Device<Array> {
    counting(model(dies, cache_units), 4096)
}

#[test]
fn n_pages_over_d_dies_take_as_many_programs_as_the_fullest_die_has() {
    for dies in 1..=5 {
        for pages in 1..=12 {
            let mut device = device(dies, 0);
            let end_ns = write(&mut device, 0, 0, pages);
            let programs = pages.div_ceil(u64::from(dies));
            let expected = TIMING.command_ns + pages * TRANSFER_NS + programs * TIMING.program_ns;
            assert_eq!(end_ns, expected, "{pages} pages, {dies} dies");
        }
    }
}

#[test]
fn a_write_that_has_room_in_the_cache_costs_its_transfer() {
    let mut device = device(2, 64);
    assert_eq!(write(&mut device, 0, 0, 3), TIMING.command_ns + 3 * TRANSFER_NS);
}

#[test]
fn a_flush_of_an_empty_cache_costs_its_overhead_only() {
    let mut device = device(2, 64);
    assert_eq!(flush(&mut device, 0), TIMING.command_ns + TIMING.flush_ns);
    write(&mut device, 10_000_000, 0, 1);
    let flushed_ns = flush(&mut device, 20_000_000);
    let expected = 20_000_000 + TIMING.command_ns + TIMING.program_ns + TIMING.flush_ns;
    assert_eq!(flushed_ns, expected);
    let again_ns = flush(&mut device, flushed_ns);
    assert_eq!(again_ns, flushed_ns + TIMING.command_ns + TIMING.flush_ns);
}

#[test]
fn d2_a_write_that_finds_no_room_waits_for_a_program_and_a_flush_for_all() {
    let mut device = device(1, 2);
    let two_ns = write(&mut device, 0, 0, 2);
    assert_eq!(two_ns, TIMING.command_ns + 2 * TRANSFER_NS);
    let third_ns = write(&mut device, two_ns, 2, 1);
    let expected = TIMING.command_ns + TRANSFER_NS + TIMING.program_ns;
    assert_eq!(third_ns - two_ns, expected);
    let flushed_ns = flush(&mut device, third_ns);
    let expected = TIMING.command_ns + 2 * TIMING.program_ns + TIMING.flush_ns;
    assert_eq!(flushed_ns - third_ns, expected);
}

#[test]
fn a_flush_waits_for_what_has_left_the_cache_and_is_not_yet_programmed() {
    let mut device = device(4, 16);
    // With the last one less than a stripe is free: four leave, and nobody waits for them.
    let now_ns = write(&mut device, 0, 0, 14);
    assert_eq!(now_ns, TIMING.command_ns + 14 * TRANSFER_NS);
    assert_eq!(device.counters().pages.programmed_host, 4);
    // Of the other ten, two lanes have three.
    let flushed_ns = flush(&mut device, now_ns);
    assert_eq!(flushed_ns, now_ns + 4 * TIMING.program_ns + TIMING.flush_ns);
}

#[test]
fn a_write_with_fua_waits_for_its_program_and_not_for_the_cache() {
    let mut device = device(1, 64);
    let now_ns = write(&mut device, 0, 0, 8);
    let expected = TIMING.command_ns + TRANSFER_NS + TIMING.program_ns;
    assert_eq!(write_fua(&mut device, now_ns, 100, 1), now_ns + expected);
    assert_eq!(device.counters().pages.programmed_host, 1);
}

#[test]
fn a_device_without_fua_flushes_after_the_write() {
    let mut model = model(1, 64);
    model.has_fua = false;
    let mut device = counting(model, 4096);
    let expected = TIMING.command_ns + TRANSFER_NS + TIMING.program_ns + TIMING.flush_ns;
    assert_eq!(write_fua(&mut device, 0, 100, 1), expected);
}

#[test]
fn reads_of_several_dies_overlap_and_units_never_written_cost_no_page() {
    let mut device = device(4, 0);
    let now_ns = write(&mut device, 0, 0, 8);
    let end_ns = read(&mut device, now_ns, 0, 8);
    let expected = TIMING.command_ns + 2 * TIMING.read_ns + 8 * TRANSFER_NS;
    assert_eq!(end_ns - now_ns, expected);
    let empty_ns = read(&mut device, end_ns, 1000, 8);
    assert_eq!(empty_ns - end_ns, TIMING.command_ns + 8 * TRANSFER_NS);
}

#[test]
fn d1_with_a_queue_of_one_a_request_waits_for_the_one_before() {
    let mut device = device(2, 0);
    let one_ns = TIMING.command_ns + TRANSFER_NS + TIMING.program_ns;
    assert_eq!(write(&mut device, 0, 0, 1), one_ns);
    assert_eq!(write(&mut device, 0, 1, 1), 2 * one_ns);
    assert_eq!(device.counters().busy_ns, 2 * one_ns);
}

#[test]
fn d1_with_a_queue_of_two_programs_of_two_dies_overlap() {
    let mut model = model(2, 0);
    model.queue_depth = 2;
    let mut device = counting(model, 4096);
    let one_ns = TIMING.command_ns + TRANSFER_NS + TIMING.program_ns;
    assert_eq!(write(&mut device, 0, 0, 1), one_ns);
    // Only the bus is between them.
    assert_eq!(write(&mut device, 0, 1, 1), one_ns + TRANSFER_NS);
    // The third waits for the first.
    assert_eq!(write(&mut device, 0, 2, 1), 2 * one_ns);
}

#[test]
fn a_host_that_is_faster_than_the_dies_gets_their_rate() {
    let mut device = device(4, 32);
    let mut now_ns = 0;
    for unit in 0..4000 {
        now_ns = write(&mut device, now_ns, unit, 1);
    }
    let by_dies_ns = 4000 * TIMING.program_ns / 4;
    let deviation = now_ns as f64 / by_dies_ns as f64 - 1.0;
    assert!(deviation.abs() < 0.02, "{deviation}");
}

#[test]
fn d4_whoever_causes_garbage_collection_waits_for_it() {
    let mut model = model(1, 0);
    model.shape.spare_share = 0.1;
    let mut device = counting(model, 4096);
    device.precondition(1.0, 3.0, 1).expect("a filled device");
    let mut random = Random(3);
    let mut now_ns = 0;
    let mut sum_ns = 0;
    let writes = 20_000;
    for _ in 0..writes {
        let end_ns = write(&mut device, now_ns, random.below(4096), 1);
        sum_ns += end_ns - now_ns;
        now_ns = end_ns;
    }
    let counters = device.counters();
    let pages = &counters.pages;
    // On one lane nothing overlaps: all that was done is in what the host waited for.
    let lane_ns = pages.read_collection * TIMING.read_ns
        + (pages.programmed_host + pages.programmed_collection) * TIMING.program_ns
        + counters.erases * TIMING.erase_ns;
    assert_eq!(counters.lane_busy_ns, lane_ns);
    assert!(sum_ns >= lane_ns - 100 * TIMING.program_ns, "{sum_ns} {lane_ns}");
    assert!(counters.write_amplification > 3.0, "{}", counters.write_amplification);
}

#[test]
fn garbage_collection_is_spread_over_the_writes_that_cause_it() {
    let mut device = counting(Preset::named("emmc").expect("a preset").model(), (1 << 28) / UNIT);
    device.precondition(1.0, 3.0, 1).expect("a filled device");
    let mut random = Random(3);
    let (mut now_ns, mut took_ns) = (0, Vec::new());
    for _ in 0..5000 {
        let written_ns = write(&mut device, now_ns, random.below((1 << 28) / UNIT), 1);
        let flushed_ns = flush(&mut device, written_ns);
        took_ns.push(flushed_ns - now_ns);
        now_ns = flushed_ns;
    }
    took_ns.sort();
    let (median_ns, worst_ns) = (took_ns[2500], took_ns[4999]);
    println!("median {median_ns} ns, worst {worst_ns} ns, {:?}", device.counters());
    // A victim at once would be hundreds of programs.
    assert!(worst_ns < 10 * median_ns, "{median_ns} {worst_ns}");
}

#[test]
fn a_map_that_has_no_room_costs_reads_and_programs() {
    let mut model = model(1, 0);
    model.map_cache_bytes = 4096;
    let mut device = counting(model, 4096);
    device.precondition(1.0, 0.0, 1).expect("a filled device");
    let mut random = Random(3);
    for _ in 0..1000 {
        write(&mut device, 0, random.below(4096), 1);
    }
    let pages = device.counters().pages;
    // Four map pages, of which one has room: three of four accesses miss.
    assert!((600..900).contains(&pages.read_map), "{pages:?}");
    assert!(pages.programmed_map + 1 >= pages.read_map, "{pages:?}");
    let now_ns = 1 << 50;
    read(&mut device, now_ns, 0, 1);
    let missed_ns = read(&mut device, 2 * now_ns, 2048, 1) - 2 * now_ns;
    assert_eq!(missed_ns, TIMING.command_ns + 2 * TIMING.read_ns + TRANSFER_NS);
}

#[test]
fn how_long_the_blocks_last_is_their_bytes_times_their_cycles() {
    let device = device(1, 0);
    let bytes = device.geometry().physical_bytes() as f64;
    assert_eq!(device.life_days(bytes * 10.0), 100.0);
}

/// What the papers have of such devices is in README beside it.
#[test]
fn presets_take_what_the_documentation_says() {
    println!("| preset | 4 KiB, flush | 4 KiB, FUA | 256 KiB, flush | 4 KiB read |");
    for preset in Preset::ALL {
        let unit_bytes = u64::from(preset.unit_bytes.value);
        let store = oneflush_flash::nand::Store::Nothing;
        let mut device = Device::new(preset.model(), 1 << 30, store).expect(preset.name);
        let mut now_ns = 0;
        let mut lap = |end_ns: u64| {
            let took_us = (end_ns - now_ns) as f64 / 1000.0;
            now_ns = end_ns + 1_000_000_000;
            took_us
        };
        let small = write(&mut device, 0, 0, 1);
        let small = lap(flush(&mut device, small));
        let fua = lap(write_fua(&mut device, 1_000_000_000 + (small * 1000.0) as u64, 2, 1));
        let begin_ns = 10_000_000_000;
        let large = write(&mut device, begin_ns, 64, 64);
        let large = (flush(&mut device, large) - begin_ns) as f64 / 1000.0;
        let read_ns = read(&mut device, 20_000_000_000, 64, 1) - 20_000_000_000;
        println!(
            "| {} | {small:.0} µs | {fua:.0} µs | {large:.0} µs, {:.1} MB/s | {:.0} µs |",
            preset.name,
            262_144.0 / large,
            read_ns as f64 / 1000.0
        );
        assert!(small * 1000.0 >= preset.program_ns.value as f64 && unit_bytes >= UNIT);
    }
}

/// In a file of 16 MB, as Sung's thesis has it of a Nexus 7 (section 3.3): 13.2 MB/s for 256 KB and
/// a sync, 0.5 MB/s for 4 KB and a sync. There a file system writes as well.
#[test]
fn a_full_emmc_is_in_the_order_of_one_that_was_measured() {
    let preset = Preset::named("emmc").expect("a preset");
    let rates = |share: f64| {
        let mut device = counting(preset.model(), (1 << 29) / UNIT);
        device.precondition(share, 2.0, 1).expect("a filled device");
        let mut now_ns = 0;
        let mut random = Random(1);
        let mut rate = |units: u64, count: u64, is_random: bool| {
            let begin_ns = now_ns;
            for index in 0..count {
                let unit = if is_random { random.below(4096) } else { index * units % 4096 };
                now_ns = write(&mut device, now_ns, unit, units);
                now_ns = flush(&mut device, now_ns);
            }
            (count * units * UNIT * 1000) as f64 / (now_ns - begin_ns) as f64
        };
        (rate(64, 1024, false), rate(1, 4096, true), device.counters().write_amplification)
    };
    println!("| share that is filled | 256 KiB in order | 4 KiB at random | write amplification |");
    for share in [0.0, 0.5, 0.9, 1.0] {
        let (in_order, at_random, amplification) = rates(share);
        println!("| {share} | {in_order:.1} MB/s | {at_random:.2} MB/s | {amplification:.2} |");
        assert!((2.0..30.0).contains(&in_order) && (0.2..3.0).contains(&at_random));
    }
}
