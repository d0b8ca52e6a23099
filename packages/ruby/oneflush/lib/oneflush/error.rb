# frozen_string_literal: true

module Oneflush
  # What was refused, and the way out.
  class Error < StandardError; end
end
