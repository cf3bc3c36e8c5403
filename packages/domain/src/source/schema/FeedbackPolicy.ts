/** Which comments and checks of a pull request become work for the sandbox that published it (docs/decisions/24). */
import * as Schema from "effect/Schema"

/** Rounds without a person's word after which feedback pauses. */
export const MAX_ROUNDS = 20

/** What of a pull request is given to its sandbox, and what happens then. */
export const FeedbackPolicy = Schema.Struct({
  comments: Schema.Literals(["off", "mention", "all"]).annotateKey({
    description: "Comments and reviews of people who may write to the repository; `mention`: those that name `@slipway`."
  }),
  checks: Schema.Literals(["off", "failing"]).annotateKey({ description: "Failing checks, once all checks of the commit are done." }),
  rounds: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_ROUNDS })).annotateKey({
    description: "Rounds without a person's word after which feedback pauses."
  }),
  publish: Schema.Boolean.annotateKey({ description: "Whether a round that succeeded is published." })
}).annotate({ identifier: "FeedbackPolicy" })
export type FeedbackPolicy = typeof FeedbackPolicy.Type

/** The policy of repositories without one. */
export const NO_FEEDBACK: FeedbackPolicy = { comments: "off", checks: "off", rounds: 3, publish: true }
