/** Which comments and checks of a pull request become work for the sandbox that published it (docs/decisions/24). */
import * as Schema from "effect/Schema"

/** Rounds without a person's word after which feedback pauses. */
export const MAX_ROUNDS = 20

/** The feedback that a sandbox gets from its pull requests, and what happens after a round of it. */
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
