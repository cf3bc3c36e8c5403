/** The reviews of a pull request and their comments on code. */
import { Effect } from "effect"
import * as Answers from "./Answers.ts"
import type { ForgejoApi, Place } from "./ForgejoApi.ts"

/** Reviews whose comments are read, the newest first: each is one request. */
const MAXIMUM_READ = 50

/** The submitted ones, oldest first. */
export const submittedOf = (api: ForgejoApi, place: Place, number: number) =>
  Effect.map(
    api.all(place, `/pulls/${number}/reviews`, Answers.Reviews),
    (reviews) => reviews.filter(({ state }) => state !== "PENDING" && state !== "REQUEST_REVIEW")
  )

/** The comments on code of these reviews. A server that does not count them is asked for each. */
export const commentsIn = (api: ForgejoApi, place: Place, number: number, reviews: Effect.Success<ReturnType<typeof submittedOf>>) =>
  Effect.map(
    Effect.forEach(
      reviews.filter(({ comments_count: count }) => count !== 0).slice(-MAXIMUM_READ),
      (review) =>
        Effect.map(
          api.get(place, `/pulls/${number}/reviews/${review.id}/comments`, Answers.ReviewComments),
          (comments) => (comments ?? []).map((comment) => ({ review, comment }))
        ),
      { concurrency: 4 }
    ),
    (found) => found.flat()
  )

export const commentsOf = (api: ForgejoApi, place: Place, number: number) =>
  Effect.flatMap(submittedOf(api, place, number), (reviews) => commentsIn(api, place, number, reviews))
