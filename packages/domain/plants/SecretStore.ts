import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "SecretStore",
  subject: "packages/domain/test/environment/SecretStore.suites.ts",
  plants: plantsIn("packages/domain/memory/SecretStoreMemory.ts", [
    ["keeps the old value beside the new one", "[...all.filter((secret) => secret !== before), {", "[...all, {"],
    ["forgets when a secret was made", "before?.record.createdAt ?? at", "at"],
    ["forgets when a value was set last", "setAt: at", "setAt: before?.record.setAt ?? at"],
    ["writes a repository as it was first written", "repo: key.repo, name: key.name",
      "repo: before?.record.repo ?? key.repo, name: key.name"],
    ["takes a repository in another case for another one", "sameRepo(secret.record.repo, repo)", "secret.record.repo === repo"],
    ["gives the secrets of other grants", "secret.grantId === grantId && (repo", "(repo"],
    ["holds one secret more of a repository", "others.length >= MAX_SECRETS", "others.length > MAX_SECRETS"],
    ["holds one secret more of a grant", "ofGrant.length >= MAX_SECRETS_OF_GRANT", "ofGrant.length > MAX_SECRETS_OF_GRANT"],
    ["counts a secret that is set again twice", "(yield* kept(key.grantId, null)).filter((secret) => secret !== before)",
      "yield* kept(key.grantId, null)"],
    ["counts the characters of values", "utf8Length(Redacted.value(value))", "Redacted.value(value).length"],
    ["holds a byte less of a repository", "bytes > MAX_VALUES_BYTES", "bytes >= MAX_VALUES_BYTES"],
    ["keeps the secrets of revoked grants", "if (!(yield* isGood(grantId))) all = all.filter((secret) => secret.grantId !== grantId)", ""],
    ["sets secrets of revoked grants", "if (!(yield* isGood(key.grantId))) return yield* new GrantNotFound({ grant: key.grantId })", ""],
    ["removes what is not there", "return yield* new SecretNotFound()", "return"],
    ["removes the name from all repositories", "(secret) => secret !== found",
      "({ grantId, record: { name } }) => grantId !== key.grantId || name !== key.name"],
    ["gives what there is where one is missing", "if (missing.length > 0) return yield* new SecretsMissing({ repo, names: missing })", ""],
    ["names one of those that are missing", "names: missing }", "names: missing.slice(0, 1) }"],
    ["gives setup all values", "new Map(names.flatMap(", "new Map(Array.from(values.keys()).flatMap("],
    ["lists by name alone", "`${repo.toLowerCase()} ${name}`", "name"],
    ["lists repositories in capitals first", "repo.toLowerCase()", "repo"],
    ["tells values in lists", "{ grantId: key.grantId, record, value }",
      "{ grantId: key.grantId, record: { ...record, value: Redacted.value(value) }, value }"],
    ["tells the audit log of the removal alone", "yield* audit.append([told(\"secret.set\", key, at)])", ""],
    ["tells the audit log what the value is", "[told(\"secret.set\", key, at)]",
      "[told(\"secret.set\", { ...key, name: `${key.name}=${Redacted.value(value)}` }, at)]"]
  ])
}
