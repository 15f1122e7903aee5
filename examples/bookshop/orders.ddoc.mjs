// Views over the bookshop's orders. The functions are sent to the view server as they stand here, so each one sees nothing
// but its arguments and what the view server offers: emit, sum, log, isArray, toJSON.
/* global emit */

export default {
  _id: "_design/orders",
  language: "javascript",
  views: {
    // Revenue by year, month and day: try --group-level 1 or 2.
    revenue: {
      map: (doc) => {
        if (doc.type === "order" && doc.status !== "cancelled") emit(doc.date, doc.total);
      },
      reduce: "_sum",
    },

    // Number, sum, smallest and largest order of each country and city.
    order_value: {
      map: (doc) => {
        if (doc.type === "order") emit([doc.country, doc.city], doc.total);
      },
      reduce: "_stats",
    },

    by_status: {
      map: (doc) => {
        if (doc.type === "order") emit(doc.status, null);
      },
      reduce: "_count",
    },

    // Copies sold: one row for each item of an order.
    sold: {
      map: (doc) => {
        for (const { genre, title, quantity } of doc.items ?? []) emit([genre, title], quantity);
      },
      reduce: "_sum",
    },

    // Orders of a customer, newest last. The value links to the customer: --include-docs shows it.
    by_customer: {
      map: (doc) => {
        if (doc.type === "order")
          emit([doc.customer, ...doc.date], { _id: doc.customer, total: doc.total });
      },
    },

    // The largest order of each year, by a reduce function of our own.
    largest: {
      map: (doc) => {
        if (doc.type === "order") emit(doc.date, { order: doc._id, total: doc.total });
      },
      reduce: function (keys, values, rereduce) {
        return values.reduce((best, value) => (value.total > best.total ? value : best));
      },
    },
  },
};
