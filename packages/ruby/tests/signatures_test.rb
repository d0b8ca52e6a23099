# frozen_string_literal: true

require_relative "helper"

class Signatures < Case
  SIG = File.expand_path("../sig", File.dirname($LOADED_FEATURES.grep(/oneflush\.rb\z/).first))
  MODULES = [Oneflush::Platform, Oneflush::Options, Oneflush::Loading, Oneflush::Opening,
             Oneflush::Asking, Oneflush::Program].freeze

  # A gem that Ruby brings.
  def setup
    gem "rbs"
  rescue Gem::LoadError
    skip "there is no rbs"
  end

  def test_the_signatures_are_valid
    program = "gem 'rbs'; load Gem.bin_path('rbs', 'rbs')"
    said, status = Open3.capture2e(RbConfig.ruby, "-e", program, "--", "-I", SIG, "validate",
                                   "--silent")
    assert status.success?, said
  end

  def test_calls_fit_the_signatures
    source = <<~RUBY
      db = Oneflush.open(ARGV[0], strategy: :eager, sqlite3: { results_as_hash: true })
      db.execute("PRAGMA journal_mode = WAL")
      Oneflush.strategy(db); Oneflush.stats(db); Oneflush.checkpoint(db)
      db.close
      Oneflush.open(ARGV[0]) { |other| Oneflush.load(other, default: true) }
      Oneflush.enable(default: true, group_commit: false, log_size: 4 << 20)
      Oneflush.recover(ARGV[0], dry_run: true)
      Oneflush.library_path; Oneflush.program_path; Oneflush.uri("app.db")
      begin
        Oneflush.recover(ARGV[0], dry_run: "yes")
      rescue Exception => error
        print error.class
      end
    RUBY
    env = { "RBS_TEST_TARGET" => "Oneflush::*", "RBS_TEST_OPT" => "-I #{SIG}",
            "RBS_TEST_RAISE" => "true", "RBS_TEST_LOGLEVEL" => "error" }
    said, status = Open3.capture2e(env, RbConfig.ruby, "-r", "sqlite3", "-r", "rbs/test/setup",
                                   "-r", "oneflush", "-e", source, file)
    assert status.success?, said
    # A wrong argument is noticed, so right ones were looked at.
    assert_equal "RBS::Test::Tester::TypeError", said
  end

  def test_every_public_method_has_a_signature
    signed = File.read(File.join(SIG, "oneflush.rbs")).scan(/def (\w+):/).flatten
    public_methods = MODULES.flat_map(&:public_instance_methods).map(&:to_s)
    of_interfaces = %w[to_path get_first_value enable_load_extension load_extension]
    assert_equal public_methods.sort, (signed - of_interfaces).sort
  end
end
