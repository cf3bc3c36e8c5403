/** Apart from the schema of the policy, so that rules can import the value without it. */
import type { FeedbackPolicy } from "./FeedbackPolicy.ts"

/** The policy of repositories without one. */
export const NO_FEEDBACK: FeedbackPolicy = { comments: "off", checks: "off", rounds: 3, publish: true }
