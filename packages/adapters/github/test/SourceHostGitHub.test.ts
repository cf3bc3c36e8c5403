import * as SourceHostContract from "@slipway/testing/contracts/source/SourceHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect } from "effect"
import { layer, repository } from "./TestGitHub.ts"

register(SourceHostContract.suite("github", layer({ readsBeforeMergeable: 0 }), {
  repository: Effect.fnUntraced(function*(files) {
    const { fullName, repository: there } = yield* repository(files)
    return {
      fullName,
      commit: (branch, changes) => Effect.promise(() => there.commit(branch, changes)),
      merge: (head, base) => Effect.promise(() => there.merge(head, base)),
      deleteBranch: (branch) => Effect.promise(() => there.deleteBranch(branch)),
      comment: (number, { text, ...where }) => Effect.sync(() => void there.comment(number, { body: text, ...where }))
    }
  })
}))
