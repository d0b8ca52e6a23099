# frozen_string_literal: true

require_relative "helper"

class Processes < Case
  HEAD = 'require "oneflush"; require "sqlite3"; file = ARGV[0]; '

  %w[plain eager].each do |strategy|
    define_method("test_children_of_a_fork_use_what_the_parent_has_loaded_#{strategy}") do
      file = self.file
      said = ruby("#{HEAD} Oneflush.enable(default: true, strategy: '#{strategy}')
        SQLite3::Database.new(file).tap do |db|
          db.execute('PRAGMA journal_mode = WAL')
          db.execute('CREATE TABLE item(n)')
          db.close
        end
        4.times do
          fork do
            db = SQLite3::Database.new(file)
            db.busy_timeout(10_000)
            25.times { db.execute('INSERT INTO item VALUES (1)') }
            puts Oneflush.strategy(db)
            db.close
          end
        end
        Process.waitall", file)
      assert_equal [strategy] * 4, said.split
      assert_equal "100|ok", alone(file, "SELECT count(*), (SELECT integrity_check FROM
        pragma_integrity_check) FROM item")
    end

    define_method("test_threads_share_a_database_#{strategy}") do
      file = self.file
      ruby("#{HEAD} Oneflush.enable(default: true, strategy: '#{strategy}')
        open = lambda do
          db = SQLite3::Database.new(file)
          # It sleeps in Ruby, so that the other threads go on.
          db.busy_handler { sleep(0.001) }
          db
        end
        open.call.tap do |db|
          db.execute('PRAGMA journal_mode = WAL')
          db.execute('CREATE TABLE item(n)')
          db.close
        end
        Array.new(4) do
          Thread.new do
            db = open.call
            25.times do
              db.transaction(:immediate) do
                db.execute('INSERT INTO item VALUES (1)')
                Thread.pass
                db.execute('INSERT INTO item VALUES (2)')
              end
            end
            db.close
          end
        end.each(&:join)", file)
      assert_equal "200", alone(file, "SELECT count(*) FROM item")
    end
  end

  def test_threads_that_load_at_the_same_time_leave_the_environment_as_it_was
    said = ruby("#{HEAD} before = ENV.to_h
      Array.new(8) { Thread.new { Oneflush.enable(default: true, strategy: :eager) } }.each(&:join)
      print before == ENV.to_h, Oneflush.strategy(SQLite3::Database.new(file))", file)
    assert_equal "trueeager (inactive: journal_mode=delete)", said
  end
end
