//! Any requests, with losses of power at any operation, against a table of what may be read (D3).
//!
//! Of each unit the table has the values that it may have after a loss of power: the durable one
//! and all since. The last one is what it has now. A unit has two halves, so that parts of it can
//! be written.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::*;
use crate::ftl::Flaw;
use crate::ftl::power::{Cut, End, Powered};
use crate::geometry::Shape;
use crate::timing::Timing;

const UNITS: u64 = 48;
const UNIT: u64 = 512;
const HALF: u64 = UNIT / 2;

#[derive(Clone, Debug)]
enum Step {
    Write { unit: u64, units: u64, fua: bool },
    WriteHalf { half: u64 },
    Zeros { unit: u64 },
    Trim { unit: u64, units: u64 },
    Flush,
    Read { unit: u64 },
}

#[derive(Clone, Debug)]
struct Scene {
    cache_units: u64,
    page_units: u32,
    has_fua: bool,
    steps: Vec<Step>,
    cuts: Vec<Cut>,
}

fn step() -> impl Strategy<Value = Step> {
    let unit = 0..UNITS;
    prop_oneof![
        10 => (unit.clone(), 1..6_u64, prop::bool::weighted(0.2))
            .prop_map(|(unit, units, fua)| Step::Write { unit, units, fua }),
        2 => (0..2 * UNITS).prop_map(|half| Step::WriteHalf { half }),
        1 => unit.clone().prop_map(|unit| Step::Zeros { unit }),
        3 => (unit.clone(), 1..9_u64).prop_map(|(unit, units)| Step::Trim { unit, units }),
        3 => Just(Step::Flush),
        2 => unit.prop_map(|unit| Step::Read { unit }),
    ]
}

fn cut() -> impl Strategy<Value = Cut> {
    let end = prop_oneof![
        1 => Just(End::NotBegun),
        3 => Just(End::Torn),
        1 => Just(End::Done)
    ];
    (0..120_u64, end, prop_oneof![Just(0), any::<u64>()]).prop_map(|(after, end, lost)| Cut {
        after,
        end,
        lost,
    })
}

fn scene() -> impl Strategy<Value = Scene> {
    (
        prop_oneof![Just(0), Just(3), Just(8), Just(32)],
        1..=2_u32,
        any::<bool>(),
        prop::collection::vec(step(), 1..250),
        prop::collection::vec(cut(), 0..5),
    )
        .prop_map(|(cache_units, page_units, has_fua, steps, cuts)| Scene {
            cache_units,
            page_units,
            has_fua,
            steps,
            cuts,
        })
}

fn model(scene: &Scene) -> Model {
    Model {
        shape: Shape {
            unit_bytes: UNIT as u32,
            page_bytes: UNIT as u32 * scene.page_units,
            block_pages: 4,
            dies: 2,
            planes: 1,
            spare_share: 0.6,
        },
        timing: Timing { read_ns: 5, program_ns: 100, erase_ns: 300, ..Timing::ZERO },
        cache_bytes: scene.cache_units * UNIT,
        has_fua: scene.has_fua,
        queue_depth: 4,
        map_cache_bytes: 0,
        endurance_cycles: 1,
    }
}

/// The two halves of a unit.
type Value = [u32; 2];

struct Bench {
    model: Model,
    device: Option<Device<Powered>>,
    may_be: Vec<Vec<Value>>,
    cuts: std::vec::IntoIter<Cut>,
    next: u32,
    now_ns: u64,
    flaw: Flaw,
    losses: u32,
    checks: bool,
}

fn bytes_of(value: Value) -> Vec<u8> {
    value.into_iter().flat_map(|half| half.to_le_bytes().repeat(HALF as usize / 4)).collect()
}

impl Bench {
    fn new(scene: &Scene, flaw: Flaw) -> Bench {
        let model = model(scene);
        let geometry = Geometry::new(model.shape, UNITS * UNIT).expect("a valid shape");
        let array = Array::new(geometry, Store::memory()).expect("memory");
        let mut bench = Bench {
            model,
            device: None,
            may_be: vec![vec![[0, 0]]; UNITS as usize],
            cuts: scene.cuts.clone().into_iter(),
            next: 0,
            now_ns: 0,
            flaw,
            losses: 0,
            // What is broken must be found in what the host reads.
            checks: flaw == Flaw::None,
        };
        bench.start(Powered::new(array));
        bench
    }

    fn start(&mut self, mut nand: Powered) {
        nand.power_on();
        nand.plan(self.cuts.next());
        let mut device = Device::recover(self.model, nand).expect("an array of ours");
        device.ftl.flaw = self.flaw;
        self.device = Some(device);
    }

    fn device(&mut self) -> &mut Device<Powered> {
        self.device.as_mut().expect("it is always put back")
    }

    fn last(&self, unit: u64) -> Value {
        *self.may_be[unit as usize].last().expect("never empty")
    }

    fn becomes(&mut self, unit: u64, value: Value) {
        self.may_be[unit as usize].push(value);
    }

    /// `true`: answered. `false`: power was lost, and is back.
    fn request(&mut self, request: Request<'_>) -> Result<bool, String> {
        let now_ns = self.now_ns;
        match self.device().request(now_ns, request) {
            Ok(end_ns) => {
                if end_ns < now_ns {
                    return Err("done before it began".to_owned());
                }
                self.now_ns += 37;
                self.check().map(|()| true)
            }
            Err(DeviceError::Ftl(FtlError::Nand(NandError::PowerOff))) => {
                self.losses += 1;
                let device = self.device.take().expect("it is always put back");
                self.start(device.into_nand());
                self.check()?;
                self.compare_all()?;
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn check(&mut self) -> Result<(), String> {
        if !self.checks {
            return Ok(());
        }
        let device = self.device();
        let held = device.cache.len() + device.leaving_units;
        if held > device.cache_units {
            return Err(format!("D2: {held} units in a cache of {}", device.cache_units));
        }
        device.ftl.check()
    }

    fn read(&mut self, unit: u64) -> Result<Value, String> {
        let mut bytes = vec![0xEE; UNIT as usize];
        let request = Request::Read { offset: unit * UNIT, into: &mut bytes };
        let now_ns = self.now_ns;
        self.device().request(now_ns, request).map_err(|error| error.to_string())?;
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let value = [half(0), half(HALF as usize)];
        if bytes == bytes_of(value) { Ok(value) } else { Err(format!("{unit} is mixed")) }
    }

    /// After a loss of power; what is found is durable from here on.
    fn compare_all(&mut self) -> Result<(), String> {
        for unit in 0..UNITS {
            let found = self.read(unit)?;
            let may_be = &mut self.may_be[unit as usize];
            if !may_be.contains(&found) {
                return Err(format!("D3: {unit} is {found:?}, not one of {may_be:?}"));
            }
            *may_be = vec![found];
        }
        Ok(())
    }

    fn durable(&mut self, units: std::ops::Range<u64>) {
        for unit in units {
            self.may_be[unit as usize] = vec![self.last(unit)];
        }
        self.device().ftl.nand_mut().settle();
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Write { unit, units, fua } => {
                let end = UNITS.min(unit + units);
                let mut bytes = Vec::new();
                for unit in unit..end {
                    self.next += 1;
                    let value = [self.next, self.next];
                    bytes.extend(bytes_of(value));
                    self.becomes(unit, value);
                }
                let content = Content::Bytes(&bytes);
                let done = self.request(Request::Write { offset: unit * UNIT, content, fua })?;
                if done && (fua || self.model.cache_bytes == 0) {
                    self.durable(unit..end);
                }
            }
            Step::WriteHalf { half } => {
                let unit = half / 2;
                self.next += 1;
                let mut value = self.last(unit);
                value[half as usize % 2] = self.next;
                self.becomes(unit, value);
                let bytes = self.next.to_le_bytes().repeat(HALF as usize / 4);
                let content = Content::Bytes(&bytes);
                let offset = half * HALF;
                let done = self.request(Request::Write { offset, content, fua: false })?;
                if done && self.model.cache_bytes == 0 {
                    self.durable(unit..unit + 1);
                }
            }
            Step::Zeros { unit } => {
                self.becomes(unit, [0, 0]);
                let content = Content::Zeros(UNIT);
                let offset = unit * UNIT;
                let done = self.request(Request::Write { offset, content, fua: false })?;
                if done && self.model.cache_bytes == 0 {
                    self.durable(unit..unit + 1);
                }
            }
            Step::Trim { unit, units } => {
                let end = UNITS.min(unit + units);
                (unit..end).for_each(|unit| self.becomes(unit, [0, 0]));
                self.request(Request::Trim { offset: unit * UNIT, bytes: (end - unit) * UNIT })?;
            }
            Step::Flush => {
                if self.request(Request::Flush)? {
                    self.durable(0..UNITS);
                }
            }
            Step::Read { unit } => {
                let (found, expected) = (self.read(unit)?, self.last(unit));
                if found != expected {
                    return Err(format!("{unit} is {found:?}, not {expected:?}"));
                }
            }
        }
        Ok(())
    }
}

/// How often power was lost.
fn play(scene: &Scene, flaw: Flaw) -> Result<u32, String> {
    let mut bench = Bench::new(scene, flaw);
    for step in &scene.steps {
        bench.step(step)?;
    }
    for unit in 0..UNITS {
        bench.step(&Step::Read { unit })?;
    }
    Ok(bench.losses)
}

/// `PROPTEST_CASES` in the environment gives another number of scenes.
fn config() -> Config {
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default().cases,
        None => 600,
    };
    Config { cases, failure_persistence: None, ..Config::default() }
}

#[test]
fn d3_what_was_flushed_survives_a_loss_of_power_at_any_operation() {
    let mut runner = TestRunner::new(config());
    let losses = std::cell::Cell::new(0);
    let result = runner.run(&scene(), |scene| {
        let lost = play(&scene, Flaw::None).map_err(TestCaseError::fail)?;
        losses.set(losses.get() + lost);
        Ok(())
    });
    println!("{} losses of power", losses.get());
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(losses.get() > 300, "{}", losses.get());
}

/// Each must be found with as many scenes as the sound one has, by D3 alone. The scenes are the
/// same each time.
#[test]
fn broken_devices_are_caught() {
    let flaws = [Flaw::ErasesFirst, Flaw::ForgetsTrimmed, Flaw::CopiesAsNew, Flaw::KeepsCache];
    for flaw in flaws {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let config = Config { max_shrink_iters: 0, ..config() };
        let mut runner = TestRunner::new_with_rng(config, rng);
        let result = runner
            .run(&scene(), |scene| play(&scene, flaw).map(|_| ()).map_err(TestCaseError::fail));
        match result {
            Err(TestError::Fail(reason, _)) => println!("{flaw:?}: {reason}"),
            other => panic!("{flaw:?} was not caught: {other:?}"),
        }
    }
}
