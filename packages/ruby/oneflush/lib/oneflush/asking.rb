# frozen_string_literal: true

require "json"

module Oneflush
  # The PRAGMAs of Oneflush on an open database.
  module Asking
    # @param db [SQLite3::Database]
    # @return [String, nil] `"plain"`, `"plain (inactive: journal_mode=delete)"`; nil where Oneflush
    #   is not in use
    def strategy(db)
      db.get_first_value("PRAGMA oneflush_strategy")
    end

    # What the commits of this process have cost.
    #
    # @example
    #   Oneflush.stats(db).dig("commits", "count")
    # @param db [SQLite3::Database]
    # @return [Hash, nil] nil where Oneflush is not in use
    def stats(db)
      parsed(db.get_first_value("PRAGMA oneflush_stats"))
    end

    # Runs a checkpoint now.
    #
    # @param db [SQLite3::Database]
    # @return [Hash, nil] what it has copied; nil where Oneflush is not in use
    def checkpoint(db)
      parsed(db.get_first_value("PRAGMA oneflush_checkpoint"))
    end

    private

    def parsed(text)
      text && JSON.parse(text)
    end
  end
end
