// What the language offers, sorted by the harm it can do to an argument: the lists that the proofs of purity.ts rest on.

export const HELPERS = names("emit sum log toJSON isArray");

export const OTHER_HELPERS = names("require provides registerType start send getRow arguments");

// Global functions and methods of globals that change none of their arguments and call back nothing but what is checked below.
export const GLOBAL_FUNCTIONS = names(
  "Number String Boolean BigInt Date Array RegExp Error TypeError RangeError Symbol parseInt parseFloat isNaN isFinite escape " +
    "unescape encodeURI encodeURIComponent decodeURI decodeURIComponent",
);
export const GLOBAL_METHODS: Readonly<Record<string, ReadonlySet<string>>> = {
  Math: names(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clz32 cos cosh exp expm1 floor fround hypot imul log log10 log1p log2 max " +
      "min pow random round sign sin sinh sqrt tan tanh trunc",
  ),
  Object: names("keys values entries is hasOwn"),
  Array: names("isArray of"),
  JSON: names("stringify"),
  Number: names("isInteger isSafeInteger isFinite isNaN parseInt parseFloat"),
  String: names("fromCharCode fromCodePoint"),
  Date: names("UTC now parse"),
};
export const OBJECT = names("Object");
/** Methods of Object that answer a new array. */
export const LISTS = names("keys values entries");
export const CONSTRUCTORS = names("Date Array RegExp Error TypeError RangeError Map Set");

/** Methods that change neither receiver nor arguments. */
export const METHODS = names(
  "charAt charCodeAt codePointAt at concat includes indexOf lastIndexOf slice substr substring trim trimStart trimEnd trimLeft " +
    "trimRight toLowerCase toUpperCase toLocaleLowerCase toLocaleUpperCase startsWith endsWith split match search normalize " +
    "localeCompare padStart padEnd repeat replace replaceAll join toString toFixed toPrecision toExponential valueOf " +
    "hasOwnProperty flat keys values entries get has test exec toReversed with " +
    "getTime getFullYear getMonth getDate getDay getHours getMinutes getSeconds getMilliseconds getTimezoneOffset getYear " +
    "getUTCFullYear getUTCMonth getUTCDate getUTCDay getUTCHours getUTCMinutes getUTCSeconds getUTCMilliseconds " +
    "toISOString toJSON toDateString toTimeString toUTCString toGMTString toLocaleDateString toLocaleTimeString toLocaleString",
);
/** Methods that call back: harmless if the first argument is a function of this source or a harmless one of the language. */
export const CALLBACK_METHODS = names(
  "forEach map filter reduce reduceRight some every find findIndex findLast findLastIndex flatMap toSorted",
);
/** Methods that change their receiver: only on fresh variables. */
export const CHANGING_METHODS = names(
  "push pop shift unshift sort reverse splice fill copyWithin set add delete clear setTime setFullYear setMonth setDate setHours " +
    "setMinutes setSeconds setMilliseconds setUTCFullYear setUTCMonth setUTCDate setUTCHours setUTCMinutes setUTCSeconds " +
    "setUTCMilliseconds setYear",
);
export const SUSPICIOUS_MEMBERS = names(
  "__proto__ constructor prototype __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ caller callee arguments " +
    "call apply bind assign freeze isFrozen isSealed isExtensible",
);
export const ENDS_PROOF = names(
  "WithStatement ClassDeclaration ClassExpression TaggedTemplateExpression YieldExpression AwaitExpression MetaProperty Super " +
    "ImportExpression ThisExpression PrivateIdentifier",
);

function names(text: string): ReadonlySet<string> {
  return new Set(text.split(/\s+/));
}
