import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/source/RepositoryAliasesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Layer } from "effect"
import * as RepositoryAliasesPostgres from "../src/repository-aliases/RepositoryAliasesPostgres.ts"
import { database } from "./Stores.ts"

register(suite("postgres", Layer.merge(RepositoryAliasesPostgres.layer, IdsNode.layer).pipe(Layer.provideMerge(database()))))
