/** The laws of rules that an embedder may write anew, on the domain's. */
import { checkRules } from "@slipway/testing/laws/RuleLaws"
import { register } from "@slipway/testing/runners/Vitest"

register(checkRules())
