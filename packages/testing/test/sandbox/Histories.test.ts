/** The laws of all histories: they hold for every sandbox, after any commands in any order. */
import { checkHistories } from "@slipway/testing/laws/Laws"
import { register } from "@slipway/testing/runners/Vitest"

register(checkHistories())
