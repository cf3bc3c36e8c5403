import { type Plants, plantsIn } from "./Plant.ts"

const FORGEJO = "packages/adapters/forgejo"

export const plants: Plants = {
  port: "SourceHostForgejo",
  subject: [`${FORGEJO}/test/Failures.test.ts`, `${FORGEJO}/test/SourceHostForgejo.test.ts`],
  plants: [
    ...plantsIn(`${FORGEJO}/src/ForgejoApi.ts`, [
      ["follows a redirection to another server", "if (origin !== new URL(apiUrl).origin || !pathname.startsWith(prefix)) return null",
        "if (!pathname.startsWith(prefix)) return null"],
      ["follows no redirection", "return isRepoName(moved) ? moved : null", "return null"],
      ["follows redirections without end", "&& moves < MAXIMUM_MOVES", ""],
      ["takes a short page for the last one", "return entries === 0 || link", "return entries < PER_PAGE || link"],
      ["takes a list that changed for a complete one", "isStable: totals.size <= 1", "isStable: true"],
      ["takes the beginning of an endless list for all of it",
        "return yield* new RestFailed({ status: 200, detail: `A list of ${host.name} is too long to be read.`, retryable: false })",
        "return { found, isStable: true }"],
      ["sends tokens unencrypted", "if (RestApi.isOpenLine(new URL(url)))", "if (false)"],
      ["takes an address with a password", "if (username !== \"\" || password !== \"\" || search !== \"\")", "if (search !== \"\")"],
      ["does not say what to check about a token", "Effect.fail(refused(name, failure))", "Effect.fail(failure)"],
      ["loses the server's further words", "[data.message ?? \"\", ...data.errors ?? []]", "[data.message ?? \"\"]"],
      ["takes a repository that is missing for an outage", "onStatus(404, () => Effect.fail(new RepoNotAccessible({ repo: place.asked })))",
        "(self) => self"],
      ["keeps a token", "const token = yield* connection.token(place.name)", "const token = yield* connection.token(place.asked)"],
      ["misses that a scope is missing", "Effect.succeed(detail.includes(\"scope\"))", "Effect.succeed(false)"]
    ]),
    ...plantsIn(`${FORGEJO}/src/Answers.ts`, [
      ["gives the title with the mark of a draft", "title: pull.draft ? readyTitle(pull.title) : pull.title", "title: pull.title"],
      ["takes a mark away that makes no draft", "title: pull.draft ? readyTitle(pull.title) : pull.title", "title: readyTitle(pull.title)"],
      ["knows no marks in brackets", "(?:\\[[^\\]\\s]{1,40}\\]|[^\\s:]{1,40}:)", "(?:[^\\s:]{1,40}:)"],
      ["sends titles of any length", "if (bytes.length <= MAX_TITLE_BYTES) return", "if (true) return"],
      ["cuts a character in two", "return new TextDecoder().decode(bytes.subarray(0, MAX_TITLE_BYTES), { stream: true })",
        "return bytes.subarray(0, MAX_TITLE_BYTES).toString()"],
      ["takes a pull request without a branch for its own", "return head.label !== \"\" && Schema", "return Schema"],
      ["loses the branch of a closed pull request", "headRef: pull.head.label === \"\" ? pull.head.ref : pull.head.label",
        "headRef: pull.head.ref"],
      ["splits a character of a comment", "MAX_COMMENT - 1 : MAX_COMMENT)", "MAX_COMMENT : MAX_COMMENT)"],
      ["says of a cut comment that it is whole", ".length <= MAX_COMMENT,\n  path", ".length > 0,\n  path"]
    ]),
    ...plantsIn(`${FORGEJO}/src/PullRequests.ts`, [
      ["finds a pull request of a fork", "pull.head.label === headRef && isOwn(pull)", "pull.head.label === headRef"],
      ["lists pull requests of forks", "pulls.filter(isOwn).sort(", "[...pulls].sort("],
      ["lists one page", "(found, page) => page >= MAXIMUM_LISTED_PAGES ||", "(found, page) => page >= 1 ||"],
      ["protects no branch", "isProtected: branch.protected", "isProtected: false"],
      ["opens what is ready", "title: Answers.draftTitle(title)", "title"],
      ["does not name the open pull request", "open === null ? \"\" : `: ${open.url}`", "\"\""],
      ["takes a missing branch for a missing repository", "onStatus(404, (failure) => api.absent(place, Effect.fail(failure)))",
        "onStatus(404, () => Effect.fail(new SourceHostError({ operation, detail: \"\", retryable: true })))"],
      ["knows no labels of organizations", "const isComplete = names.every((name) => own.some(same(name)))", "const isComplete = true"],
      ["asks any organization's team", "if (team !== undefined && owner.toLowerCase()", "if (false && owner.toLowerCase()"],
      ["ends a draft that is closed", "if (pull.state === \"closed\" || !pull.draft)", "if (!pull.draft)"],
      ["takes a draft that goes on for a ready one", "if (!changed.draft) return", "if (true) return"]
    ]),
    ...plantsIn(`${FORGEJO}/src/SourceHostForgejo.ts`, [
      ["lets another account with the login write", "String(user?.id) === id && MAY_WRITE", "MAY_WRITE"],
      ["lets readers write", "new Set([\"owner\", \"admin\", \"write\"])", "new Set([\"owner\", \"admin\", \"write\", \"read\"])"],
      ["takes a question it may not ask for a no", "return Effect.fail(new SourceHostError({ operation: \"read who may write\", detail",
        "return Effect.succeed(false) || Effect.fail(new SourceHostError({ operation: \"read who may write\", detail"],
      ["gives a remote to push to what it may only read", "permissions?.push === false", "false"],
      ["gives the old address of a renamed repository", "url: `${api.webUrl}/${fullName}.git`", "url: `${api.webUrl}/${repo}.git`"],
      ["lists the repositories of everyone", "names.filter((name) => query.owners.includes(accountOf(name)))", "names"],
      ["takes addresses beside its own path", "new URL(address).pathname.startsWith(`${pathname}/`)", "true"]
    ]),
    ...plantsIn(`${FORGEJO}/src/Refusals.ts`, [
      ["refuses nothing", "return missing ?? null", "return null"],
      ["refuses what it does not know", "return answer !== undefined && answer.isMissing",
        "return answer === undefined || answer.isMissing"]
    ])
  ]
}
