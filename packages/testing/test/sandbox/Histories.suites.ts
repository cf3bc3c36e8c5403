import { checkHistories } from "@slipway/testing/laws/Laws"

/** For faults that are planted by the dozen: fewer runs than the tests have. */
export const suites = () => [checkHistories(100)]
