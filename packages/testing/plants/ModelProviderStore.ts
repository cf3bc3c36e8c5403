import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "ModelProviderStore",
  subject: "packages/testing/test/models/ModelProviderStore.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/models/ModelProviderStoreMemory.ts", [
      ["keeps the default before beside the new one", "isDefault ? {", "false ? {"],
      ["takes the default from all with every change", "isDefault ? {", "true ? {"],
      ["keeps the old key beside a new one", "key: key === \"keep\" ? before?.key ?? null : key",
        "key: before?.key ?? (key === \"keep\" ? null : key)"],
      ["loses a key that is to be kept", "key === \"keep\" ? before?.key ?? null : key", "key === \"keep\" ? null : key"],
      ["lists in the order of setting", ".toSorted((a, b) => a.provider < b.provider ? -1 : 1)", ""],
      ["tells keys in lists", "({ record }) => record)", "({ key, record }) => ({ ...record, key }))"],
      ["removes what is not there", "return yield* new ProviderNotFound()", "return"],
      ["removes all providers", ".filter(([name]) => name !== provider)", ".filter(() => false)"],
      ["does not log what is set", "yield* audit.append([told(\"model_provider.set\", provider, at)])", ""],
      ["does not log what is removed", "yield* audit.append([told(\"model_provider.removed\", provider, at)])", ""]
    ]),
    ...plantsIn("packages/domain/src/models/rules/ModelProviders.ts", [
      ["keeps a key for another address", "hadKey ? before.baseUrl !== baseUrl : ", "hadKey ? false : "],
      ["takes a free provider without an address", "if (isFree && baseUrl === null) return refuse(\"baseUrl\")", ""],
      ["forgets that a key is kept", "hasKey: key !== \"keep\" || hadKey", "hasKey: key !== \"keep\""]
    ])
  ]
}
