import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "RepositorySettings",
  subject: "packages/testing/test/source/RepositorySettings.suites.ts",
  plants: plantsIn("packages/domain/memory/source/RepositorySettingsMemory.ts", [
    ["tells spellings of a repository apart", "const key = repo.toLowerCase()", "const key = repo"],
    ["looks a repository up as it is spelled", "all.get(grantId)?.get(repo.toLowerCase())", "all.get(grantId)?.get(repo)"],
    ["takes settings for a revoked grant", "&& revokedAt === null", ""],
    ["keeps settings of no choice", "if (sameSettings(settings, NO_SETTINGS)) ofGrant.delete(key)\n        else ", ""],
    ["has no most repositories", "ofGrant.size >= MAX_REPOSITORIES", "false"],
    ["refuses a change at the limit", "!ofGrant.has(key) && ", ""],
    ["shares settings of all grants", "const ofGrant = all.get(grantId) ??", "const ofGrant = Array.from(all.values())[0] ??"],
    ["lists in the order of setting", ".toSorted(([a], [b]) => a < b ? -1 : 1)", ""],
    ["logs what is unchanged", "if (sameSettings(ofGrant.get(key)?.settings ?? NO_SETTINGS, settings)) return", ""],
    ["does not log changes", "yield* audit.append([changed(of, at)])", ""],
    ["keeps the time of the first setting", "setAt: at }", "setAt: ofGrant.get(key)?.setAt ?? at }"]
  ])
}
