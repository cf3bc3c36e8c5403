import { type Plants, plantsIn } from "./Plant.ts"

const isOf = "(sandbox) => sandbox.grantId === grantId"
const pulls = "pull === undefined || pullsOf(sandbox, pull, repo).length > 0"
const newest = "checkpoints.findLast(({ checkpoint }) => checkpoint === rows.get(id)?.sandbox.checkpoint)"
const since = "DateTime.isGreaterThanOrEqualTo(createdAt, since)"
const isHeld = "isHeld(row, now) && takesSlot(row.sandbox)"
const groupOf = "[day, repo, model, createdBy, status, reason]"

export const plants: Plants = {
  port: "SandboxDashboard",
  subject: "packages/testing/test/sandbox/SandboxDashboard.suites.ts",
  plants: plantsIn("packages/domain/memory/sandbox/SandboxDashboardMemory.ts", [
    ["lists the sandboxes of all grants", isOf, "() => true"],
    ["lists oldest first", `${isOf}).sort(newestFirst)`, `${isOf}).sort((a, b) => newestFirst(b, a))`],
    ["begins a page with the last one of the page before", "newestFirst(after, sandbox) < 0", "newestFirst(after, sandbox) <= 0"],
    ["fills a page whatever is in it", "pageOf(found, limit, bytesOf.sandbox)", "found.slice(0, limit)"],
    ["takes how a sandbox stands for its status", "attentionStateOf(sandbox) === attention", "sandbox.status === attention"],
    ["looks at the first repository alone", "sandbox.repos.some(", "sandbox.repos.slice(0, 1).some("],
    ["looks for a repository in its case", "fullName.toLowerCase() === repo.toLowerCase()", "fullName === repo"],
    ["looks for text in its case", "sandbox.title.toLowerCase().includes(search.toLowerCase())", "sandbox.title.includes(search)"],
    ["looks at the beginning of titles", ".includes(search.toLowerCase())", ".startsWith(search.toLowerCase())"],
    ["takes what is typed for a pattern", "sandbox.title.toLowerCase().includes(search.toLowerCase())",
      "new RegExp(search.replace(/[%_\\\\]/g, \".*\"), \"i\").test(sandbox.title)"],
    ["finds titles alone", " || hitIn(row, search) !== undefined", ""],
    ["finds prompts alone", ", ...messages.slice(0, SEARCHED_MESSAGES).map(({ text }) => text)]", "]"],
    ["finds messages alone", "[sandbox.prompt, ...messages", "[...messages"],
    ["finds every message", "messages.slice(0, SEARCHED_MESSAGES)", "messages"],
    ["shows the oldest text", ".findLast((text) => hasWords", ".find((text) => hasWords"],
    ["shows texts of other grants", "row?.sandbox.grantId === grantId ? hitIn(row, search)", "row !== undefined ? hitIn(row, search)"],
    ["shows the whole text", "Array.from(text).slice(0, SEARCHED_CHARACTERS)", "Array.from(text)"],
    ["finds what anybody created", "createdBy === null || sandbox.createdBy === createdBy", "true"],
    ["finds one pair of the metadata", "Object.entries(pairs).every(", "Object.entries(pairs).length === 0 || Object.entries(pairs).some("],
    ["finds a key whatever its value", "Object.hasOwn(metadata, key) && metadata[key] === value", "Object.hasOwn(metadata, key)"],
    ["finds a pull request of another repository", pulls, pulls.replace("repo)", "null)")],
    ["finds a pull request that is only asked for", pulls, `pull === "any" && sandbox.publications.length > 0 || ${pulls}`],
    ["lists what another person pinned", "`${grantId} ${userId}`", "grantId"],
    ["lists everything as pinned", "userId === undefined || pinsOf", "userId !== \"\" || pinsOf"],
    ["pins sandboxes of another grant", "rows.get(id)?.sandbox.grantId !== by.grantId", "!rows.has(id)"],
    ["keeps pins of all grants together", "`${grantId} ${userId}`", "userId"],
    ["pins without a limit", "isPinned && others.length >= MAX_PINS", "others.length > 1e9"],
    ["counts a pin twice", "pinsOf(by)).filter((other) => other !== id)", "pinsOf(by))"],
    ["tells what differed when it was last counted", newest, "checkpoints.findLast(({ changes }) => changes !== undefined)"],
    ["tells what differed first", newest, "checkpoints.at(0)"],
    ["tells of every creation", "slice(0, RECENT)", "slice(0)"],
    ["tells that what waits for its boot ran", "started: startedAt !== null", "started: true"],
    ["counts places within the grant", "places.set(sandbox.id, i + 1)", "places.set(sandbox.id, places.size + 1)"],
    ["counts places from 0", "places.set(sandbox.id, i + 1)", "places.set(sandbox.id, i)"],
    ["has the line in the order of creation", "DateTime.Order(a.workSince ?? now, b.workSince ?? now) || ", ""],
    ["has those in line that somebody holds", " && !isHeld(row, now))", ")"],
    ["has those at work in line again", "workOf(row.sandbox) === \"boot\"", "true"],
    ["counts those at work of the grant alone", isHeld, `${isHeld} && row.sandbox.grantId === grantId`],
    ["takes those that wait for a person for at work", isHeld, "isHeld(row, now)"],
    ["counts the slots of workers that end", "isThere && !isDraining", "isThere"],
    ["counts the slots of workers that are gone", "isThere && !isDraining", "!isDraining"],
    ["counts the slots that are free", "sum + slots.all", "sum + slots.all - slots.taken"],
    ["leaves out what was created in that instant", since, "DateTime.isGreaterThan(createdAt, since)"],
    ["adds up whatever was created", since, "true"],
    ["adds up whatever model was at work", groupOf, "[day, repo, createdBy, status, reason]"],
    ["adds up whatever person asked", groupOf, "[day, repo, model, status, reason]"],
    ["counts publications without a pull request", "publications.filter(({ number }) => number !== null).length", "publications.length"],
    ["counts open pull requests as merged", "publications.filter(({ merged }) => merged === true)",
      "publications.filter(({ number }) => number !== null)"],
    ["measures a merge from 1970", " - DateTime.toEpochMillis(createdAt))", ")"],
    ["counts one sandbox of each state", "(counts.get(state) ?? 0) + 1", "1"],
    ["counts one pull request of each state", "(numbers.get(state) ?? 0) + 1", "1"],
    ["adds up whatever the reason", groupOf, "[day, repo, model, createdBy, status]"],
    ["names the last repository", "repos[0]?.fullName", "repos.at(-1)?.fullName"],
    ["tells those first that cost least", "b.costMicroUsd - a.costMicroUsd", "a.costMicroUsd - b.costMicroUsd"],
    ["tells the tokens of one sandbox of a group", "addTokenCounts(known.tokens, tokens)", "tokens"],
    ["adds up more than a number can tell", "saturatingAdd(known.costMicroUsd, usage.costMicroUsd)",
      "known.costMicroUsd + usage.costMicroUsd"]
  ])
}
