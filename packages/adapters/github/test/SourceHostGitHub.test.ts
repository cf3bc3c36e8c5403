import * as SourceHostContract from "@slipway/testing/contracts/source/SourceHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect } from "effect"
import { layer, repository } from "./TestGitHub.ts"

register(SourceHostContract.suite("github", layer({ readsBeforeMergeable: 0 }), {
  repository: Effect.fnUntraced(function*(files) {
    const { fullName, repository: there } = yield* repository(files)
    there.collaborators.push({ id: 7, login: "Ada", permission: "write" }, { id: 8, login: "bob", permission: "read" })
    there.labels.add("needs review")
    there.teams.add("payments")
    return {
      fullName,
      reviewing: {
        label: "needs review",
        team: "acme/payments",
        of: (number) =>
          Effect.sync(() => {
            const pull = there.pulls.find((one) => one.number === number)
            return { labels: Array.from(pull?.labels ?? []), reviewers: pull?.reviewers.size ?? 0 }
          })
      },
      accounts: {
        writer: { id: "7", login: "ada" },
        reader: { id: "8", login: "bob" },
        stranger: { id: "9", login: "carol" },
        renamed: { id: "10", login: "ada" }
      },
      commit: (branch, changes) => Effect.promise(() => there.commit(branch, changes)),
      merge: (head, base) => Effect.promise(() => there.merge(head, base)),
      deleteBranch: (branch) => Effect.promise(() => there.deleteBranch(branch)),
      protect: (branch) => Effect.sync(() => void there.protectedBranches.add(branch)),
      openFromFork: (fork) =>
        Effect.promise(async () => {
          const sha = (await there.bare.branches()).get("trunk") ?? ""
          const of = { baseRef: "trunk", baseSha: sha, headRef: "main", headSha: sha, fork }
          return (await there.open({ title: "From a fork", body: null, draft: false, user: { id: 9, login: "someone" }, ...of })).number
        }),
      comment: (number, { text, ...where }) => Effect.sync(() => void there.comment(number, { body: text, ...where }))
    }
  })
}))
