"""What an author writes: tools, agents; and what becomes of a call between the model's text and the world."""
