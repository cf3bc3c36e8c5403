import { type Plants, plantsIn } from "./Plant.ts"

const FORGEJO = "packages/adapters/forgejo"

/** Polling and webhooks, which have the same news. */
export const plants: Plants = {
  port: "RepositoryNewsForgejo",
  subject: [`${FORGEJO}/test/Webhooks.test.ts`, `${FORGEJO}/test/RepositoryNewsForgejo.test.ts`],
  plants: [
    ...plantsIn(`${FORGEJO}/src/RepositoryNewsForgejo.ts`, [
      ["reports the same change again and again", "if (seen.has(key)) continue", ""],
      ["misses a second change in a second", "if (serverMillis - millisOf(issue.updated_at) >= SETTLED_MILLIS) seen.add(key)",
        "seen.add(key)"],
      ["lets a change in the future hide others", "if (!(millisOf(issue.updated_at) > serverMillis)) newest", "newest"],
      ["lets the cursor grow", "if (JSON.stringify([...waiting, entry]).length > MAXIMUM_WAITING_CHARACTERS && waiting.length > 0)",
        "if (false)"],
      ["passes over changes that do not fit", "page: !isComplete ? cursor.page : isLast", "page: isLast"],
      ["takes the first page for all", "const isLast = answer === null || ForgejoApi.isLast(answer, issues.length, listed)",
        "const isLast = true"],
      ["reports old issues as new", "if (!numbers.has(issue.number) && millisOf(issue.created_at) >= millisOf(entry.since) && issue",
        "if (issue"],
      ["forgets labels", "waiting: [...added.length === 0 ? [] : [{ ...first, added }],", "waiting: ["],
      ["never looks at jobs", ": TURNS[cursor.turn % TURNS.length] === \"runs\"", ": false"],
      ["reports running jobs", ".filter(({ status }) => !RUNNING.has(status))", ""],
      ["hides that jobs were missed", "changed.length >= PER_PAGE\n", "false\n"],
      ["takes a branch for a pull request", "event?.startsWith(\"pull_request\") === true ? Number", "true ? Number"],
      ["serves nothing but waiting issues", "const serves = waiting !== undefined && !cursor.served",
        "const serves = waiting !== undefined"],
      ["does not tell a new name", "presentName: read.presentName ?? place.name", "presentName: repo"],
      ["fails for a repository without issues", "onStatus(404, () => api.absent(place, Effect.succeed(null)))\n  )\n  const issues",
        "(self) => self\n  )\n  const issues"]
    ]),
    ...plantsIn(`${FORGEJO}/src/Timeline.ts`, [
      ["takes a page of hidden comments for the last one", "found.length === 0 ? at >= MAXIMUM_EMPTY :", "found.length === 0 ? true :"],
      ["reports edited comments", "entries: found.filter(isNew)", "entries: found"],
      ["fails for a deleted issue", "onStatus(404, () => api.absent(place, Effect.succeed({ entries: [], isLast: true })))",
        "(self) => self"]
    ]),
    ...plantsIn(`${FORGEJO}/src/News.ts`, [
      ["reports labels that were taken away", "entry.type === \"label\" && entry.body === \"1\"", "entry.type === \"label\""],
      ["reports changes of a title as comments", "type === \"comment\" || type", "type !== \"label\" && type !== \"review\" || type"],
      ["names texts by other ids than their repository's", "id: `issue:${repositoryId}#${issue.number}`", "id: `issue:${issue.number}`"],
      ["gives bodies of any length", "body: cut(body, MAX_NEWS_BODY)", "body"],
      ["splits a character", "? maximum - 1 : maximum)", "? maximum : maximum)"]
    ]),
    ...plantsIn(`${FORGEJO}/src/SourceHostEventsForgejo.ts`, [
      ["takes any signature", "if (!isAuthentic(secret, body, headers))", "if (false)"],
      ["takes an empty secret", " || Redacted.value(secret) === \"\"", ""],
      ["takes our own texts for a person's while it does not know its account",
        "if (own === null) return news.filter(({ _tag }) => _tag === \"Pull\" || _tag === \"Missed\")", ""],
      ["reports edited comments", "...action === \"created\" ?", "...true ?"],
      ["reports each event as a new pull request", "...action === \"opened\" ? [News.opened(repo, repositoryId, issue, own)] : []]",
        "News.opened(repo, repositoryId, issue, own)]"],
      ["looks up no reviews", "...(action === \"reviewed\" ?", "...(false ?"],
      ["looks up no labels of issues", "return action === \"label_updated\" ?", "return false ?"],
      ["reports runs that go on", "if (read?.action !== \"completed\") return nothing", "if (read === null) return nothing"],
      ["reports pending statuses", "return state === \"pending\" ? nothing", "return state === \"\" ? nothing"],
      ["takes words of objects for events", "Object.hasOwn(readers, name) ? readers[name] : undefined", "readers[name]"]
    ])
  ]
}
