// Makes orders.ndjson: a bookshop's customers, books and orders, one document a line. Seeded: it always writes the same.
//
//   node examples/bookshop/generate.mjs > examples/bookshop/orders.ndjson

const CUSTOMERS = 320;
const ORDERS = 3400;
const SEED = 20240229;

let state = SEED;
/** A number in [0, 1): mulberry32. */
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const below = (limit) => Math.floor(random() * limit);
const pick = (list) => list[below(list.length)];
/** Small numbers are likelier: regulars order more often than others. */
const skewed = (limit) => Math.floor(limit * random() ** 2.2);

const PLACES = [
  {
    country: "DE",
    cities: ["Köln", "Hamburg", "München", "Leipzig"],
    first: ["Jürgen", "Anke", "Björn", "Käthe", "Lukas", "Zoë"],
    last: ["Müller", "Schäfer", "Groß", "Weiß", "Öztürk", "Braun"],
  },
  {
    country: "FR",
    cities: ["Paris", "Orléans", "Besançon", "Nîmes"],
    first: ["Hélène", "François", "Anaïs", "Noël", "Camille"],
    last: ["Lefèvre", "Dupont", "Gauthier", "Béranger"],
  },
  {
    country: "PL",
    cities: ["Łódź", "Kraków", "Gdańsk"],
    first: ["Łukasz", "Zofia", "Żaneta", "Piotr"],
    last: ["Wiśniewski", "Żak", "Nowak", "Śliwa"],
  },
  {
    country: "SE",
    cities: ["Malmö", "Göteborg", "Umeå"],
    first: ["Åsa", "Göran", "Ebba", "Nils"],
    last: ["Sjöberg", "Åkesson", "Lind", "Öberg"],
  },
  {
    country: "GB",
    cities: ["Leeds", "Bristol", "Norwich", "Cardiff"],
    first: ["Amelia", "Oliver", "Siân", "George", "Imogen"],
    last: ["O'Brien", "Smith", "Cole", "Hughes"],
  },
  {
    country: "JP",
    cities: ["東京", "大阪", "札幌"],
    first: ["陽子", "健", "さくら"],
    last: ["佐藤", "鈴木", "高橋"],
  },
];

const GENRES = {
  crime: [
    "The Ninth Key",
    "A Quiet Harbour",
    "Night Train to Łódź",
    "Seven Locks",
    "The Ferryman's Alibi",
  ],
  fantasy: ["The Glass Orchard", "Salt and Silver", "The Last Cartographer", "Wintering Ravens"],
  history: ["Amber Roads", "Letters from the Hansa", "The Paper Empire", "Ports of the North"],
  cooking: ["Forty Soups", "Pâte à choux", "Bread, Slowly", "Zwölf Suppen"],
  science: [
    "The Patient Sky",
    "Moss",
    "How Rivers Think",
    "A Field Guide to Error",
    "Numbers at Night",
  ],
  poetry: ["Small Hours", "Étude in Grey", "俳句 for Beginners"],
  travel: ["By Ferry to Åland", "Slow Trains", "The Café Atlas"],
};

const documents = [];
const pad = (number, width) => String(number).padStart(width, "0");

const books = Object.entries(GENRES).flatMap(([genre, titles]) =>
  titles.map((title) => ({ title, genre, price: 6 + below(34) })),
);
books.forEach((book, i) => {
  book.id = `book:${pad(i + 1, 3)}`;
  documents.push({ _id: book.id, type: "book", ...book, id: undefined, pages: 90 + below(600) });
});

const customers = Array.from({ length: CUSTOMERS }, (_, i) => {
  const place = pick(PLACES);
  const name = `${pick(place.first)} ${pick(place.last)}`;
  return {
    id: `customer:${pad(i + 1, 4)}`,
    name,
    city: pick(place.cities),
    country: place.country,
  };
});
for (const customer of customers) {
  documents.push({
    _id: customer.id,
    type: "customer",
    name: customer.name,
    address: { city: customer.city, country: customer.country },
    newsletter: random() < 0.4,
  });
}

const STATUSES = [
  "delivered",
  "delivered",
  "delivered",
  "delivered",
  "shipped",
  "paid",
  "returned",
  "cancelled",
];
for (let i = 0; i < ORDERS; i++) {
  const customer = customers[skewed(CUSTOMERS)];
  const date = new Date(Date.UTC(2022, 0, 1) + Math.floor(random() * 3 * 365) * 86_400_000);
  const items = Array.from({ length: 1 + skewed(5) }, () => {
    const book = books[skewed(books.length)];
    return {
      book: book.id,
      title: book.title,
      genre: book.genre,
      quantity: 1 + skewed(4),
      price: book.price,
    };
  });
  const total = items.reduce((sum, item) => sum + item.quantity * item.price, 0);
  documents.push({
    _id: `order:${pad(i + 1, 5)}`,
    type: "order",
    customer: customer.id,
    country: customer.country,
    city: customer.city,
    date: [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()],
    status: pick(STATUSES),
    items,
    total,
    ...(random() < 0.1 ? { coupon: pick(["SPRING10", "HELLO", "ÜBER20"]) } : {}),
  });
}

process.stdout.write(documents.map((document) => `${JSON.stringify(document)}\n`).join(""));
