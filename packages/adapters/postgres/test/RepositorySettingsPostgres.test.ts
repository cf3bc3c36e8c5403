import { Access } from "@slipway/domain/access/usecases/Access"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/source/RepositorySettingsContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Layer } from "effect"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as RepositorySettingsPostgres from "../src/repository-settings/RepositorySettingsPostgres.ts"
import { database } from "./Stores.ts"

register(suite(
  "postgres",
  RepositorySettingsPostgres.layer.pipe(
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStorePostgres.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
    Layer.provideMerge(database())
  )
))
