import { checkHistories } from "@slipway/testing/laws/Laws"
import { checkRules } from "@slipway/testing/laws/RuleLaws"

/** For faults that are planted by the dozen: fewer runs than the tests have. */
export const suites = () => [checkRules(), checkHistories(100)]
