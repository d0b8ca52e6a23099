# frozen_string_literal: true

require_relative "oneflush/built"
require_relative "oneflush/error"
require_relative "oneflush/platform"
require_relative "oneflush/options"
require_relative "oneflush/loading"
require_relative "oneflush/opening"
require_relative "oneflush/asking"
require_relative "oneflush/program"

# Durable SQLite commits for one aligned write and one flush, in the SQLite you already use.
#
# Oneflush is a SQLite extension. It stays loaded for the process and serves databases that are
# opened afterwards; a database that is open stays as it is.
#
# @example Every database of the process
#   Oneflush.enable(default: true)
# @example One database
#   db = Oneflush.open("app.db", strategy: :eager)
module Oneflush
  extend Platform
  extend Options
  extend Loading
  extend Opening
  extend Asking
  extend Program
end
