// The header slots. Four of 4096 bytes stand at the start of the file: A and B take turns at synced commits, C and D at commits
// without a sync; those two are trusted only while the machine that wrote them is up. A slot, all numbers little-endian:
//
//   0 magic (8) · 8 format version u32 · 12 crc u32 · 16 salt (16) · 32 commit number u64 · 40 roots record: offset u64 · 48 size u32
//   52 slot number u32 · 56 file length u64 · 64 leaf bytes u32 · 68 inner bytes u32 · 72 value bytes max u32
//   76 boot id: length u8, then at most 64 bytes · 144 tail: start u64 · 152 checksum u32 · zeros up to 256
//   512 seal: checksum u32, written once the tail is known to be durable
//
// The checksum covers bytes 16-255 and then 0-11, and starts from the checksum of the salt. All later versions keep the first
// 16 bytes and this rule, so that a newer version can be told from damage.

import { readFileSync } from "node:fs";
import { crc32 } from "node:zlib";
import { equalBytes, readU32, writeU32 } from "./bytes.js";
import { FORMAT_VERSION, MAGIC, SLOT_BYTES, SLOT_COUNT, type TreeFormat } from "./format.js";
import type { StorageBackend } from "./storage.js";
import type { Bytes } from "./types.js";

/** Bytes of a slot that mean something and are checked. */
const SLOT_USED_BYTES = 256;
const BOOT_ID_BYTES_MAX = 64;

/** Slots from this index on are written without a sync. */
const SOFT_SLOTS_START = 2;

/** True for slots that outlast the process but not the machine. */
export function isSoftSlot(slot: number): boolean {
  return slot >= SOFT_SLOTS_START;
}

/** The other of the two slots that take turns. */
export function otherSlot(slot: number): number {
  return slot ^ 1;
}

export interface Header {
  readonly slot: number;
  readonly commit: number;
  readonly rootsOffset: number;
  readonly rootsSize: number;
  readonly fileLength: number;
  readonly format: TreeFormat;
  readonly bootId: string;
  /** Of the slot's format. */
  readonly version: number;
  /** What was written together with the slot: only whole does the slot count. Undefined: it is known to have been synced. */
  readonly tail: Tail | undefined;
}

/** The bytes of the file from `start` to the header's file length. */
export interface Tail {
  readonly start: number;
  readonly crc: number;
}

/** Where a slot's seal stands: in another sector than the header, whose bytes its writing must not touch. */
export const SEAL_OFFSET = 512;

/** What is written at `SEAL_OFFSET` of a slot once its commit is durable: opening then need not look at the tail. */
export function encodeSeal(slot: Bytes): Bytes {
  const seal = new Uint8Array(4);
  writeU32(seal, 0, sealChecksum(slot));
  return seal;
}

/** A seal is good for one header: its checksum goes on from that of the header. */
function sealChecksum(slot: Bytes): number {
  return crc32(slot.subarray(0, SLOT_USED_BYTES), readU32(slot, 12));
}

/** What a slot holds: a header, one of a newer version, nothing (never written), or something unusable. */
export type SlotContent = Header | { readonly newerVersion: number } | "empty" | "damaged";

export function encodeSlot(header: Header): Bytes {
  const bytes = new Uint8Array(SLOT_BYTES);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  view.setUint32(8, header.version, true);
  bytes.set(header.format.salt, 16);
  view.setBigUint64(32, BigInt(header.commit), true);
  view.setBigUint64(40, BigInt(header.rootsOffset), true);
  view.setUint32(48, header.rootsSize, true);
  view.setUint32(52, header.slot, true);
  view.setBigUint64(56, BigInt(header.fileLength), true);
  view.setUint32(64, header.format.leafBytes, true);
  view.setUint32(68, header.format.innerBytes, true);
  view.setUint32(72, header.format.valueBytesMax, true);
  const bootId = Buffer.from(header.bootId, "latin1").subarray(0, BOOT_ID_BYTES_MAX);
  bytes[76] = bootId.length;
  bytes.set(bootId, 77);
  if (header.tail) {
    view.setBigUint64(144, BigInt(header.tail.start), true);
    view.setUint32(152, header.tail.crc, true);
  }
  writeU32(bytes, 12, slotChecksum(bytes));
  return bytes;
}

export function decodeSlot(bytes: Bytes, slot: number): SlotContent {
  const used = bytes.subarray(0, SLOT_USED_BYTES);
  if (used.every((byte) => byte === 0)) return "empty";
  if (used.length < SLOT_USED_BYTES || !equalBytes(used.subarray(0, 8), MAGIC)) return "damaged";
  if (readU32(bytes, 12) !== slotChecksum(bytes)) return "damaged";
  const version = readU32(bytes, 8);
  if (version > FORMAT_VERSION) return { newerVersion: version };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  // A slot copied to another's place is not what was written there.
  if (view.getUint32(52, true) !== slot) return "damaged";
  const sealed = readU32(bytes, SEAL_OFFSET) === sealChecksum(bytes);
  const tailStart = version > 1 && !sealed ? Number(view.getBigUint64(144, true)) : 0;
  const bootIdLength = Math.min(bytes[76] as number, BOOT_ID_BYTES_MAX);
  return {
    slot,
    commit: Number(view.getBigUint64(32, true)),
    rootsOffset: Number(view.getBigUint64(40, true)),
    rootsSize: view.getUint32(48, true),
    fileLength: Number(view.getBigUint64(56, true)),
    format: {
      salt: bytes.slice(16, 32),
      leafBytes: view.getUint32(64, true),
      innerBytes: view.getUint32(68, true),
      valueBytesMax: view.getUint32(72, true),
    },
    bootId: Buffer.from(bytes.subarray(77, 77 + bootIdLength)).toString("latin1"),
    version,
    tail: tailStart === 0 ? undefined : { start: tailStart, crc: view.getUint32(152, true) },
  };
}

/** The content of all slots, by number. */
export function readSlots(storage: StorageBackend): SlotContent[] {
  const bytes = storage.read(0, SLOT_BYTES * SLOT_COUNT);
  const slots: SlotContent[] = [];
  for (let i = 0; i < SLOT_COUNT; i++)
    slots.push(decodeSlot(bytes.subarray(i * SLOT_BYTES, (i + 1) * SLOT_BYTES), i));
  return slots;
}

/**
 * The headers that may be trusted, newest first: those of A and B, and those of C and D when the machine has not been restarted
 * since they were written, for then the system still has, or has written, all that came before.
 */
export function trustedHeaders(slots: readonly SlotContent[], bootId: string): Header[] {
  const headers: Header[] = [];
  for (const slot of slots) {
    if (typeof slot === "string" || "newerVersion" in slot) continue;
    if (isSoftSlot(slot.slot) && (bootId === "" || slot.bootId !== bootId)) continue;
    headers.push(slot);
  }
  return headers.sort((a, b) => b.commit - a.commit);
}

let machineBootId: string | undefined;

/** Names the present run of the machine's kernel; "" where the system does not tell. */
export function currentBootId(): string {
  if (machineBootId === undefined) {
    try {
      machineBootId = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    } catch {
      machineBootId = "";
    }
  }
  return machineBootId;
}

function slotChecksum(bytes: Bytes): number {
  const seed = crc32(bytes.subarray(16, 32));
  return crc32(bytes.subarray(0, 12), crc32(bytes.subarray(16, SLOT_USED_BYTES), seed));
}
