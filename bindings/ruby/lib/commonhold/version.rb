# frozen_string_literal: true

module Commonhold
  VERSION = "0.1.0"
end
