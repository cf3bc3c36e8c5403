import { checkHistories } from "@slipway/domain/testing/Laws"

/** For faults that are planted by the dozen: fewer runs than the tests have. */
export const suites = () => [checkHistories(100)]
